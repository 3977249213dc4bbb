package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/connect"
)

// job is what one run does.
type job struct {
	source string        // folder of text files to load
	data   string        // folder for database and index, empty
	redis  string        // URL; a private Redis when empty
	edits  int           // how many changes to make
	pause  time.Duration // between two of them
	kills  int           // how often to kill the indexer meanwhile; at most edits
}

// outcome is what happened in a run.
type outcome struct {
	files       loaded
	edits       edits
	marks       ick.Counters
	work        work
	kills       int
	interrupted int // kills that left a batch reserved
	took        time.Duration
}

// icks is how many Icks the channel has: the indexer works on as many batches at
// once.
const icks = 4

// openChannel returns the channel of dirty documents. The indexer gives its name,
// so that it has its Icks back at once when it starts again after a kill.
func openChannel(client rueidis.Client, name string) (*ick.Channel, error) {
	return ick.NewChannel(client, name, ick.ChannelConfig{
		Size: icks, Consumer: "indexer", Ick: ick.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))},
	})
}

// run loads, edits and kills, and returns when the channel is empty and the indexer
// has ended. By then index and database must agree.
func (j job) run(ctx context.Context, stderr io.Writer) (o outcome, err error) {
	start := time.Now()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()

	docs, err := openStore(ctx, j.data)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, docs.close()) }()
	if err := createIndex(j.data); err != nil {
		return o, err
	}
	redis, err := openRedis(ctx, j.redis, stderr)
	if err != nil {
		return o, err
	}
	defer redis.close()
	dirty, err := openChannel(redis.client, "docsync:"+rand.Text())
	if err != nil {
		return o, err
	}
	defer func() {
		_, gone := dirty.Delete(context.WithoutCancel(ctx))
		err = errors.Join(err, gone)
	}()

	indexer := &keeper{args: []string{redis.url, dirty.Name(), j.data}, fail: fail}
	if err := indexer.start(); err != nil {
		return o, err
	}
	defer func() { _ = indexer.kill() }() // unless it came to stop

	ids, err := o.files.load(ctx, j.source, docs, dirty, stderr)
	if err != nil {
		return o, err
	}
	if err := j.disturb(ctx, &o, newEditor(docs, dirty, ids), indexer, stderr); err != nil {
		return o, err
	}
	if o.marks, err = drain(ctx, dirty, stderr); err != nil {
		return o, err
	}
	if err := indexer.stop(); err != nil {
		return o, err
	}
	o.work, o.took = indexer.work, time.Since(start)
	return o, nil
}

// disturb makes the edits, and kills the indexer after some of them.
func (j job) disturb(ctx context.Context, o *outcome, e *editor, indexer *keeper, stderr io.Writer) error {
	fatal := mathrand.Perm(j.edits)[:j.kills]
	bar := newProgress(stderr, "edit", j.edits)
	for i := range j.edits {
		if err := e.edit(ctx, &o.edits); err != nil {
			return err
		}
		if slices.Contains(fatal, i) {
			if err := indexer.kill(); err != nil {
				return err
			}
			left, err := e.dirty.Stats(ctx)
			if err != nil {
				return err
			}
			o.kills++
			if left.Reserved > 0 {
				o.interrupted++
			}
			if err := indexer.start(); err != nil {
				return err
			}
		}
		bar.set(i + 1)
		if err := rest(ctx, j.pause); err != nil {
			return err
		}
	}
	bar.finish()
	return nil
}

// drain waits until no mark is left, and returns the counters of the channel.
func drain(ctx context.Context, dirty *ick.Channel, stderr io.Writer) (ick.Counters, error) {
	first, err := dirty.Stats(ctx)
	if err != nil {
		return ick.Counters{}, err
	}
	bar := newProgress(stderr, "drain", first.Distinct)
	for s := first; ; {
		bar.set(first.Distinct - s.Distinct)
		if s.Total == 0 && s.Parked == 0 {
			bar.finish()
			return s.Counters, nil
		}
		if err := rest(ctx, 50*time.Millisecond); err != nil {
			return s.Counters, err
		}
		if s, err = dirty.Stats(ctx); err != nil {
			return s.Counters, err
		}
	}
}

// rest waits, or returns the cause of ctx when that ends.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// redis is the Redis of a run, for this process and for the indexer's.
type redis struct {
	client rueidis.Client
	url    string
	close  func()
}

// openRedis connects to the Redis at a URL, or starts one. A program of your own
// needs none of this: it passes the rueidis.Client that it has to
// ick.NewChannel.
func openRedis(ctx context.Context, url string, stderr io.Writer) (redis, error) {
	if url != "" {
		client, err := connect.Open(url)
		if err != nil {
			return redis{}, err
		}
		return redis{client: client, url: url, close: client.Close}, nil
	}
	private, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
	if err != nil {
		return redis{}, err
	}
	fmt.Fprintf(stderr, "redis: a private %s, gone at the end\n", private.Kind)
	return redis{client: private.Client, url: private.URL, close: func() { _ = private.Close() }}, nil
}
