package demo

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/screen"
)

const (
	// hosts is how many children serve visitors at a time.
	hosts = 2

	// visitors is how many there are in all; each has a hash of its own. A demo that is
	// cut short has fewVisitors.
	visitors    = 10_000
	fewVisitors = 2000

	// expiryLoad is how long there are visits.
	expiryLoad = 3500 * time.Millisecond

	// sessionsEnding is how many sessions come to their end in a second, those
	// that are renewed then included: all of them in 25 s.
	sessionsEnding = 400

	// renewEvery is one session in so many that is renewed just before its end, so
	// that 300 in a second expire.
	renewEvery = 4
)

// expiryScene shows that fields of hashes live exactly as long as they should, and
// that those who read them remove what is over. Visitors of a web site have a
// hash each, with fields that stay and a session that expires. Reads that find
// their field have a moment to spare, and a few of those moments are enough.
func expiryScene() scene {
	return scene{
		name:  "expiry",
		shows: "10,000 hashes whose fields expire one by one, to the millisecond, and what is over is removed by those who read",
		load:  expiryLoad,
		play:  playExpiry,
		child: hostVisitors,
	}
}

const (
	nameField    = "name" // it stays
	cityField    = "city" // it stays
	sessionField = "session"
)

func visitorHash(number int) string { return "visitor:" + strconv.Itoa(number) }

// hostsKey counts the children, so that each knows which visitors are its own.
func hostsKey(name string) string { return "{" + name + "}:hosts" }

// What lies in Redis, as docs/WIRE.md has it: the demo asks each shard's server for
// its time.
func shardKey(name string, shard int) string { return fmt.Sprintf("mr:hash:{%s/%d}", name, shard) }
func shardOf(hash string) int                { return int(crc32.ChecksumIEEE([]byte(hash)) % expiry.DefaultShards) }

// expiryPlay is one performance of the scene.
type expiryPlay struct {
	*stage
	visitors int
	hashes   *expiry.Hashes
	clock    *serverClock
	ledger   *sessionLedger
	looks    []expiryLook // the last one when there were no visits any more
	idleThen int64        // recruits that found nothing while nothing was overdue

	loading time.Duration
	serving time.Duration
}

// expiryLook is what an operator sees.
type expiryLook struct {
	expiry.Stats

	before, after time.Time // it was taken between these, by the server's clock
}

// removed is how many fields have gone at or after their deadline.
func (l expiryLook) removed() int64 { return l.Reaped + l.Deleted }

func playExpiry(ctx context.Context, st *stage) (seen Scene, err error) {
	if st.mimic {
		seen.Skipped = "it makes 5,000 reads a second, for which an imitation of Redis is too slow"
		return seen, nil
	}
	p := &expiryPlay{stage: st, visitors: visitors, clock: newServerClock(st.client, st.name), ledger: newSessionLedger()}
	if st.duration < expiryLoad {
		p.visitors = fewVisitors
	}
	p.hashes, err = expiry.Open(ctx, st.client, st.name, expiry.Config{Shards: expiry.DefaultShards})
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, p.cleanUp(ctx, p.removers()...)) }()
	if err := p.perform(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return seen, err
	}
	return p.judge(), nil
}

// perform has the visitors served, and looks once more when they have gone.
func (p *expiryPlay) perform(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	crew := p.crew(p.ledger.hear, cancel)
	defer crew.dismiss(ctx)
	defer cancel(nil)
	crew.task.Visitors = p.visitors
	begin := time.Now()
	for range hosts {
		if err := crew.hire(); err != nil {
			return err
		}
	}
	if err := p.clock.ask(ctx); err != nil {
		return causeOf(ctx, err)
	}
	for range hosts {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.ledger.loaded:
		}
	}
	p.loading = time.Since(begin)
	if err := p.watch(ctx); err != nil {
		return causeOf(ctx, err)
	}
	crew.dismiss(ctx) // the ledger is whole when they have said the last of it
	return p.look(ctx)
}

// causeOf returns why a context ended, which says more than what failed for it.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watch looks at the hashes and shows progress while there are visits.
func (p *expiryPlay) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery / 4)
	defer tick.Stop()
	defer func(begin time.Time) { p.serving = time.Since(begin) }(time.Now())
	for begin := time.Now(); ; {
		if err := p.look(ctx); err != nil {
			return err
		}
		elapsed := time.Since(begin)
		p.show(min(elapsed, p.duration))
		if p.seenEnough() && elapsed >= p.duration {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// seenEnough reports whether there is something to judge: reads that came before their
// deadline, and after it, and fields that were reaped, or that recruits leave.
func (p *expiryPlay) seenEnough() bool {
	sum, last := p.ledger.sum(), p.looks[len(p.looks)-1]
	if last.Overdue == 0 {
		p.idleThen = sum.reaping.Idle
	}
	reaped := last.Reaped > 0 || sum.reaping.Idle >= p.idleThen+2*hosts
	return sum.Hits+sum.Early > 0 && sum.Over+sum.Late > 0 && sum.reaping.Recruited() > 0 && reaped
}

// look asks the namespace how it is.
func (p *expiryPlay) look(ctx context.Context) (err error) {
	if err := p.clock.tick(ctx); err != nil {
		return err
	}
	var l expiryLook
	l.before, _ = p.clock.span(time.Now())
	if l.Stats, err = p.hashes.Stats(ctx); err != nil {
		return err
	}
	_, l.after = p.clock.span(time.Now())
	p.looks = append(p.looks, l)
	return nil
}

func (p *expiryPlay) show(elapsed time.Duration) {
	last := p.looks[len(p.looks)-1]
	sum := p.ledger.sum()
	p.screen.Show(screen.Frame{
		Title: "expiry",
		Done:  elapsed,
		Whole: p.duration,
		Rows: [][]string{
			{
				grouped(sum.Reads) + " reads",
				grouped(perSecond(sum.Hits, elapsed)) + " hits/s",
				grouped(int64(sum.reaping.Recruited())) + " recruited",
			},
			{
				grouped(last.Reaped) + " reaped",
				grouped(last.Overdue) + " overdue",
				p.garbage(),
			},
		},
	})
}

// garbage draws how many fields were overdue over time.
func (p *expiryPlay) garbage() string {
	overdue := make([]int, len(p.looks))
	for i, l := range p.looks {
		overdue[i] = l.Overdue
	}
	return spark(overdue, sparkWidth)
}

// removers return what deletes all that the scene wrote.
func (p *expiryPlay) removers() []func(context.Context) (int64, error) {
	return []func(context.Context) (int64, error){
		func(ctx context.Context) (int64, error) {
			h, err := expiry.Open(ctx, p.client, p.name, expiry.Config{})
			if err != nil {
				return 0, err
			}
			s, err := h.Stats(ctx)
			return int64(s.Shards), errors.Join(err, h.Delete(ctx))
		},
		func(ctx context.Context) (int64, error) { return p.unlink(ctx, hostsKey(p.name)) },
	}
}
