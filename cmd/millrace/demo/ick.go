package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	// ickWork is how long a consumer works on a batch, such as a bulk request to a search
	// index: long enough for marks to fold, and for a kill.
	ickWork = 50 * time.Millisecond

	// skipDocument is a sabotage in tests: a consumer commits a document unprocessed.
	skipDocument    = "skip a document"
	skippedDocument = "doc:499" // the newest one at the start, which certainly changes

	// Keys of the two stores.
	database, processed = "database", "processed"
)

func ickScene() chaos.Scene {
	return chaos.Scene{
		Name:  "ick",
		Shows: "documents keep changing, their consumers are killed, and no change is forgotten",
		Load: "16 goroutines change documents in a database and mark each change in an Ick, a dirty list. " +
			"2 worker processes take batches of marks and copy the documents' versions to a second store.",
		Accident: "Worker processes are killed with SIGKILL in the middle of batches.",
		Duration: 4 * time.Second,
		Play:     playIck,
		Work:     consumeDocuments,
	}
}

// document is a row of the database, and its newest version.
type document struct {
	mu      sync.Mutex
	id      string
	version int64
}

// documents are the ledger. New documents appear all the time and change most, older ones
// less, by Zipf's law. So at every moment some documents change for the last time, and a
// mark that is forgotten shows at the end. With a fixed set the next change would hide it.
type documents struct {
	mu      sync.Mutex
	all     []*document
	changes int
	rank    *rand.Zipf
}

// pick returns the document to change next.
func (d *documents) pick() *document {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changes++; d.changes%25 == 0 || len(d.all) == 0 {
		for range max(1, 500-len(d.all)) {
			d.all = append(d.all, &document{id: "doc:" + strconv.Itoa(len(d.all))})
		}
	}
	return d.all[len(d.all)-1-int(d.rank.Uint64())%len(d.all)]
}

// ickReport is a consumer's report: a batch that it got, and then that it has processed it.
type ickReport struct {
	Handed, Processed int
	Age               time.Duration // of the oldest mark
}

// repeats counts calls that are sent again: an add may then count twice in the Ick.
type repeats struct{ atomic.Int64 }

// OnCall is called for each try.
func (r *repeats) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Try > 1 {
		r.Add(1)
	}
	return ctx, nil
}

func playIck(ctx context.Context, p *chaos.Play) {
	docs := documents{rank: rand.NewZipf(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), 1.3, 4, 1<<20)}
	rows, copies, repeated := p.Key(database), p.Key(processed), &repeats{}
	k := must.Get(ick.New(p.Client, p.Name, ick.Config{Hooks: []millrace.Hook{repeated}}))
	p.Delete(k.ForceDelete)

	var mu sync.Mutex
	var batches, done int
	var oldest time.Duration
	chaos.Hear(p, func(r ickReport) {
		mu.Lock()
		defer mu.Unlock()
		batches, done, oldest = batches+min(1, r.Handed), done+r.Processed, max(oldest, r.Age)
	})
	var marks, fresh atomic.Int64 // made by producers; of these new, as the Ick replied
	change := func(ctx context.Context) error {
		doc := docs.pick()
		doc.mu.Lock()
		doc.version++
		err := retry.Policy{}.Do(ctx, func(int) error {
			return p.Client.Do(ctx, p.Client.B().Hset().Key(rows).FieldValue().FieldValue(doc.id, strconv.FormatInt(doc.version, 10)).Build()).Error()
		})
		doc.mu.Unlock()
		if err != nil {
			return fmt.Errorf("change %s: %w", doc.id, err)
		}
		added, err := k.AddNow(ctx, doc.id)
		marks.Add(1)
		fresh.Add(int64(added.New))
		return err
	}
	var stats ick.Stats
	look := func(ctx context.Context, doing string) {
		stats = must.Get(k.Stats(ctx))
		mu.Lock()
		defer mu.Unlock()
		p.Show(doing, marks.Load(), "changes", done, "processed", stats.Distinct+stats.Parked, "waiting", p.Kills, "workers killed")
	}

	must.Get(k.AddNow(ctx)) // an Ick exists from its first add on
	p.Start(2)
	began := time.Now()
	loading, stop := context.WithTimeout(ctx, p.Duration)
	defer stop()
	wait := p.Repeat(loading, 16, chaos.Every(0), change)
	p.WatchKilling(ctx, began.Add(p.Duration), func(ctx context.Context) { look(ctx, "documents change") })
	wait()
	producing, drained := time.Since(began), time.Now()
	must.Get(k.AddNow(ctx)) // folds of the last moments are counted with the next add
	p.Drain(ctx, func(ctx context.Context) int {
		look(ctx, "waiting for the last marks")
		return stats.Total + stats.Parked
	})
	draining := time.Since(drained)
	p.Dismiss(ctx)

	var changed, kept int64
	for docs := range slices.Chunk(docs.all, 1000) {
		get := p.Client.B().Zmscore().Key(copies).Member(docs[0].id)
		for _, doc := range docs[1:] {
			get = get.Member(doc.id)
		}
		scores := must.Get(p.Client.Do(ctx, get.Build()).ToArray())
		for i, doc := range docs {
			seen, _ := scores[i].AsFloat64() // none before it was processed
			switch {
			case doc.version == 0:
			case int64(seen) == doc.version:
				changed, kept = changed+1, kept+1
			default:
				changed++
				p.Fail("%s has version %v, and version %v was processed last", doc.id, doc.version, int64(seen))
			}
		}
	}
	made, of, left := marks.Load(), stats.Counters, stats.Total+stats.Parked
	counted := of.New + of.Folded
	p.Check("nothing_forgotten", kept == changed, "the last change of every document was processed: %v of %v", kept, changed)
	p.Check("drained", left == 0, "the Ick is empty in the end: %v marks left", left)
	p.Check("handed_out", of.Reserved == of.New, "every new mark was handed out to a consumer: %v of %v", of.Reserved, of.New)
	p.Check("counted", counted >= made && of.New >= fresh.Load() && (repeated.Load() > 0 || counted == made && of.New == fresh.Load()),
		"every mark is new or folded, and producers and Ick agree: %v new + %v folded = %v made, %v calls sent twice",
		of.New, of.Folded, made, repeated.Load())

	p.Figure("documents changed", "newer ones more often", chaos.N("documents", changed))
	p.Figure("changes made and marked", chaos.PerSecond(made, producing), chaos.N("changes", made))
	p.Figure("  folded into a waiting mark", chaos.Share("", of.Folded, counted).Text, chaos.N("folded", of.Folded))
	p.Figure("  new marks", "", chaos.N("new", of.New))
	p.Figure("batches handed out", "", chaos.N("batches", batches))
	p.Figure("documents processed", fmt.Sprintf("%.2f for each change", float64(done)/float64(max(1, made))), chaos.N("processed", done))
	p.Figure("workers killed", "another one started each time", chaos.N("kills", p.Kills))
	p.Figure("late commits that a token refused", "each could have lost a change", chaos.N("kept", of.Kept))
	p.Figure("greatest age of a mark", "when a consumer got it", chaos.Ms("greatest_age_ms", oldest))
	p.Figure("making changes", "", chaos.Ms("producing_ms", producing))
	p.Figure("and until all were processed", "", chaos.Ms("draining_ms", draining))
}

// ickHook reports each batch before it is processed.
type ickHook struct{ *chaos.Worker }

// OnHandle is called by Consume.
func (h ickHook) OnHandle(ctx context.Context, batch millrace.Handling) (context.Context, func(error)) {
	_ = h.Report(ickReport{Handed: batch.Size, Age: batch.Age}) // without a parent the worker ends anyway
	return ctx, nil
}

// consumeDocuments is a worker: it copies versions until it is dismissed.
//
// A killed worker may have left a write on its way, and two workers may have the same
// document. So the copy is a sorted set in which versions only grow. A program's own copy
// needs such a guard, too.
func consumeDocuments(ctx context.Context, w *chaos.Worker) error {
	k := must.Get(ick.New(w.Client, w.Name, ick.Config{Hooks: []millrace.Hook{ickHook{w}}}))
	return k.Consume(ctx, ick.ConsumeConfig{Batch: 1000}, func(ctx context.Context, batch []ick.Entry) error {
		var ids []string
		for _, e := range batch {
			if w.Sabotage != skipDocument || e.Member != skippedDocument {
				ids = append(ids, e.Member)
			}
		}
		if len(ids) == 0 {
			return nil
		}
		versions, err := w.Client.Do(ctx, w.Client.B().Hmget().Key(chaos.Key(w.Name, database)).Field(ids...).Build()).AsIntSlice()
		if err != nil {
			return err
		}
		if !retry.Sleep(ctx, ickWork) {
			return context.Cause(ctx)
		}
		write := w.Client.B().Zadd().Key(chaos.Key(w.Name, processed)).Gt().ScoreMember()
		for i, id := range ids {
			write = write.ScoreMember(float64(versions[i]), id)
		}
		if err := w.Client.Do(ctx, write.Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
			return fmt.Errorf("copy versions: %w", err)
		}
		return w.Report(ickReport{Processed: len(ids)})
	})
}
