package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/retry"
)

const (
	// batch is how many documents a consumer takes at a time: all that wait, as
	// a rule. So the batches of the two consumers share documents, and those
	// that keep changing come in one batch after the other.
	batch = 1000

	// workPerBatch is how long the work on a batch takes, however large it is:
	// a bulk request to a search index elsewhere, say. It is time for marks to
	// fold in, and for a consumer to be killed in.
	workPerBatch = 50 * time.Millisecond
)

// ickNews is what a consumer tells: first of a batch that it was handed, then
// of the same batch that it has processed.
type ickNews struct {
	Handed    int           `json:"handed,omitempty"`    // documents
	Age       time.Duration `json:"age,omitempty"`       // of the oldest mark among them, when it was reserved
	Processed int           `json:"processed,omitempty"` // documents
}

// consumeDocuments is the ick scene's child: it brings the processed versions
// in line with the database until it is dismissed, or killed.
func consumeDocuments(ctx context.Context, p part) error {
	return consume(ctx, p, process)
}

// consume is consumeDocuments with any work on a batch of documents.
func consume(ctx context.Context, p part, work func(ctx context.Context, p part, ids []string) error) error {
	k, err := ick.New(p.client, p.name, ick.Config{Hooks: []millrace.Hook{tellHanded{p.report}}})
	if err != nil {
		return err
	}
	return k.Consume(ctx, ick.ConsumeConfig{Batch: batch}, func(ctx context.Context, marks []ick.Entry) error {
		ids := make([]string, len(marks))
		for i, m := range marks {
			ids[i] = m.Member
		}
		if err := work(ctx, p, ids); err != nil {
			return err
		}
		return p.report(ickNews{Processed: len(ids)})
	})
}

// tellHanded tells of each batch before it is worked on.
type tellHanded struct{ report func(any) error }

// OnHandle is called by Consume.
func (t tellHanded) OnHandle(ctx context.Context, h millrace.Handling) (context.Context, func(error)) {
	_ = t.report(ickNews{Handed: h.Size, Age: h.Age}) // a parent that is gone ends the child by itself
	return ctx, nil
}

// process reads documents, works on them, and writes which versions it has
// seen.
//
// A consumer that was killed may have left a write on its way, and two
// consumers may work on the same document; the older version must then not
// replace the newer one. So the processed versions are a sorted set, in which a
// version can only grow. A program's own copy needs such a guard, too.
func process(ctx context.Context, p part, ids []string) error {
	seen, err := versions(ctx, p.client, databaseKey(p.name), ids)
	if err != nil {
		return err
	}
	if !retry.Sleep(ctx, workPerBatch) {
		return context.Cause(ctx)
	}
	write := p.client.B().Zadd().Key(processedKey(p.name)).Gt().ScoreMember()
	for i, id := range ids {
		write = write.ScoreMember(float64(seen[i]), id)
	}
	if err := p.client.Do(ctx, write.Build()).Error(); err != nil {
		return fmt.Errorf("write what was processed: %w", err)
	}
	return nil
}
