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
	"github.com/millrace/millrace/internal/retry"
)

const (
	// ickWork is how long a consumer works on a batch, such as a bulk request to a search
	// index: long enough for marks to fold, and for a kill.
	ickWork = 50 * time.Millisecond

	// skipDocument is what tests take away: a consumer commits a document unprocessed.
	skipDocument    = "skip a document"
	skippedDocument = "doc:499" // the newest one at the start, which certainly changes
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

func databaseKey(name string) string  { return "{" + name + "}:database" }
func processedKey(name string) string { return "{" + name + "}:processed" }

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

// ickPlay is one performance of the scene.
type ickPlay struct {
	*chaos.Play

	ick  *ick.Ick
	docs documents

	marks, fresh               atomic.Int64 // that producers made; of these new, as the Ick replied
	repeats                    atomic.Int64 // calls that were sent again
	batches, processed, oldest atomic.Int64 // as consumers reported
	stats                      ick.Stats
}

// OnCall counts calls that are sent again: an add may then count twice in the Ick.
func (p *ickPlay) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Try > 1 {
		p.repeats.Add(1)
	}
	return ctx, nil
}

func playIck(ctx context.Context, play *chaos.Play) (err error) {
	p := &ickPlay{Play: play}
	p.docs.rank = rand.NewZipf(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), 1.3, 4, 1<<20)
	if p.ick, err = ick.New(p.Client, p.Name, ick.Config{Hooks: []millrace.Hook{p}}); err != nil {
		return err
	}
	p.Delete(p.Unlink(databaseKey(p.Name), processedKey(p.Name)))
	p.Delete(func(ctx context.Context) (int64, error) {
		n, err := p.ick.ForceDelete(ctx)
		return int64(n), err
	})
	chaos.Hear(play, p.hear)
	if _, err := p.ick.AddNow(ctx); err != nil { // an Ick exists from its first add on
		return err
	}
	if err := p.Start(2); err != nil {
		return err
	}
	began := time.Now()
	loading, stop := context.WithTimeout(ctx, p.Duration)
	defer stop()
	wait := p.Repeat(loading, 16, chaos.Every(0), p.change)
	if err := p.WatchKilling(ctx, func(ctx context.Context) (bool, error) {
		return loading.Err() != nil, p.look(ctx, "documents change")
	}); err != nil {
		return err
	}
	wait()
	producing, drained := time.Since(began), time.Now()
	if _, err := p.ick.AddNow(ctx); err != nil { // folds of the last moments are counted with the next add
		return err
	}
	if err := p.Drain(ctx, func(ctx context.Context) (int64, error) {
		err := p.look(ctx, "waiting for the last marks")
		return p.left(), err
	}); err != nil {
		return err
	}
	draining := time.Since(drained)
	p.Dismiss(ctx)
	return p.judge(ctx, producing, draining)
}

func (p *ickPlay) left() int64 { return int64(p.stats.Total + p.stats.Parked) }

// change changes one document and marks it.
func (p *ickPlay) change(ctx context.Context) error {
	doc := p.docs.pick()
	doc.mu.Lock()
	doc.version++
	err := retry.Policy{}.Do(ctx, func(int) error {
		return p.Client.Do(ctx, p.Client.B().Hset().Key(databaseKey(p.Name)).FieldValue().FieldValue(doc.id, strconv.FormatInt(doc.version, 10)).Build()).Error()
	})
	doc.mu.Unlock()
	if err != nil {
		return fmt.Errorf("change %s: %w", doc.id, err)
	}
	added, err := p.ick.AddNow(ctx, doc.id)
	if err != nil {
		return fmt.Errorf("mark %s: %w", doc.id, err)
	}
	p.marks.Add(1)
	p.fresh.Add(int64(added.New))
	return nil
}

func (p *ickPlay) look(ctx context.Context, doing string) (err error) {
	p.stats, err = p.ick.Stats(ctx)
	p.Show(doing, p.marks.Load(), "changes", p.processed.Load(), "processed", p.stats.Distinct+p.stats.Parked, "waiting", p.Kills, "workers killed")
	return err
}

// judge compares the processed versions with the ledger, and the counts.
func (p *ickPlay) judge(ctx context.Context, producing, draining time.Duration) error {
	var changed, kept int64
	for docs := range slices.Chunk(p.docs.all, 1000) {
		get := p.Client.B().Zmscore().Key(processedKey(p.Name)).Member(docs[0].id)
		for _, doc := range docs[1:] {
			get = get.Member(doc.id)
		}
		scores, err := p.Client.Do(ctx, get.Build()).ToArray()
		if err != nil {
			return err
		}
		for i, doc := range docs {
			if doc.version == 0 {
				continue
			}
			seen, _ := scores[i].AsFloat64() // none before it was processed
			if changed++; int64(seen) == doc.version {
				kept++
			} else {
				p.Fail("%s has version %v, and version %v was processed last", doc.id, doc.version, int64(seen))
			}
		}
	}
	marks, fresh, repeats, of := p.marks.Load(), p.fresh.Load(), p.repeats.Load(), p.stats.Counters
	p.Check("nothing_forgotten", kept == changed, "the last change of every document was processed: %v of %v", kept, changed)
	p.Check("drained", p.left() == 0, "the Ick is empty in the end: %v marks left", p.left())
	p.Check("handed_out", of.Reserved == of.New, "every new mark was handed out to a consumer: %v of %v", of.Reserved, of.New)
	counted := of.New + of.Folded
	p.Check("counted", counted >= marks && of.New >= fresh && (repeats > 0 || counted == marks && of.New == fresh),
		"every mark is new or folded, and producers and Ick agree: %v new + %v folded = %v made, %v calls sent twice",
		of.New, of.Folded, marks, repeats)

	p.Figure("documents changed", "newer ones more often", chaos.N("documents", changed))
	p.Figure("changes made and marked", chaos.PerSecond(marks, producing), chaos.N("changes", marks))
	p.Figure("  folded into a waiting mark", chaos.Share("", of.Folded, counted).Text, chaos.N("folded", of.Folded))
	p.Figure("  new marks", "", chaos.N("new", of.New))
	p.Figure("batches handed out", "", chaos.N("batches", p.batches.Load()))
	p.Figure("documents processed", fmt.Sprintf("%.2f for each change", float64(p.processed.Load())/float64(max(1, marks))), chaos.N("processed", p.processed.Load()))
	p.Figure("workers killed", "another one started each time", chaos.N("kills", p.Kills))
	p.Figure("late commits that a token refused", "each could have lost a change", chaos.N("kept", of.Kept))
	p.Figure("greatest age of a mark", "when a consumer got it", chaos.Ms("greatest_age_ms", time.Duration(p.oldest.Load())))
	p.Figure("making changes", "", chaos.Ms("producing_ms", producing))
	p.Figure("and until all were processed", "", chaos.Ms("draining_ms", draining))
	return nil
}

// ickReport is what a consumer reports: a batch that it got, and then that it has processed it.
type ickReport struct {
	Handed, Processed int
	Age               time.Duration // of the oldest mark
}

func (p *ickPlay) hear(r ickReport) {
	if r.Handed > 0 {
		p.batches.Add(1)
	}
	p.processed.Add(int64(r.Processed))
	for age := int64(r.Age); ; {
		before := p.oldest.Load()
		if age <= before || p.oldest.CompareAndSwap(before, age) {
			return
		}
	}
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
	k, err := ick.New(w.Client, w.Name, ick.Config{Hooks: []millrace.Hook{ickHook{w}}})
	if err != nil {
		return err
	}
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
		versions, err := w.Client.Do(ctx, w.Client.B().Hmget().Key(databaseKey(w.Name)).Field(ids...).Build()).AsIntSlice()
		if err != nil {
			return err
		}
		if !retry.Sleep(ctx, ickWork) {
			return context.Cause(ctx)
		}
		write := w.Client.B().Zadd().Key(processedKey(w.Name)).Gt().ScoreMember()
		for i, id := range ids {
			write = write.ScoreMember(float64(versions[i]), id)
		}
		if err := w.Client.Do(ctx, write.Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
			return fmt.Errorf("copy versions: %w", err)
		}
		return w.Report(ickReport{Processed: len(ids)})
	})
}
