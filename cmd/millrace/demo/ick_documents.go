package demo

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/retry"
)

const (
	// firstDocuments is how many documents there are at the start.
	firstDocuments = 500

	// changesPerDocument is after how many changes a new document appears.
	changesPerDocument = 25
)

// documents are the scene's own memory of what is in its "database", a hash
// with each document's version.
//
// New documents appear all the time and are changed most, older ones less and
// less, by Zipf's law. So at every moment of the scene some documents are
// changed for the last time, and a mark that was forgotten at any moment shows
// at the end. With a fixed set, the next change would cover it up.
type documents struct {
	client rueidis.Client
	key    string

	mu      sync.Mutex
	all     []*document
	changes int
}

// document is one row of the database.
type document struct {
	id string

	mu      sync.Mutex // held while the row is written, as a database would
	version int64      // the newest; 0 before the first change
}

func newDocuments(client rueidis.Client, key string) *documents {
	d := &documents{client: client, key: key}
	for range firstDocuments {
		d.append()
	}
	return d
}

func (d *documents) append() {
	d.all = append(d.all, &document{id: "doc:" + strconv.Itoa(len(d.all))})
}

// ranks returns a source of ranks by Zipf's law; 0 is the most frequent.
func ranks() *rand.Zipf {
	return rand.NewZipf(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), 1.3, 4, 1<<20)
}

// pick returns the document to change next: the one of that rank among the
// newest.
func (d *documents) pick(rank uint64) *document {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changes++; d.changes%changesPerDocument == 0 {
		d.append()
	}
	return d.all[len(d.all)-1-int(rank%uint64(len(d.all)))]
}

// change makes a new version of the document.
func (d *documents) change(ctx context.Context, doc *document) error {
	doc.mu.Lock()
	defer doc.mu.Unlock()
	doc.version++
	return retry.Policy{}.Do(ctx, func(int) error {
		row := d.client.B().Hset().Key(d.key).FieldValue().FieldValue(doc.id, strconv.FormatInt(doc.version, 10))
		return d.client.Do(ctx, row.Build()).Error()
	})
}

// versions asks the database for the versions of documents.
func versions(ctx context.Context, client rueidis.Client, key string, ids []string) ([]int64, error) {
	return client.Do(ctx, client.B().Hmget().Key(key).Field(ids...).Build()).AsIntSlice()
}
