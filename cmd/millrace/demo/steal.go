package demo

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/screen"
	"github.com/millrace/millrace/steal"
)

const (
	// sites is how many children serve pages at a time.
	sites = 2

	// idleAtMost is how many recruits may find nothing although sessions are due: what
	// sites tell of their recruits is a little late.
	idleAtMost = 2 * sites
)

// stealScene shows that the requests of a web site do its upkeep, and that no
// visitor waits for it. Visitors without a session get one, which is over soon;
// requests that find their page in the cache have a moment to spare, and a few
// of those moments are enough to remove the sessions that are over.
func stealScene() scene {
	return scene{
		name:  "steal",
		shows: "a web site's upkeep is done by its own requests, and its garbage stays bounded",
		load:  4 * time.Second,
		play:  playSteal,
		child: serveSite,
	}
}

// stealPlay is one performance of the scene.
type stealPlay struct {
	*stage
	found chan string // the addresses of sites
	crowd *crowd

	// What the sites told.
	mu       sync.Mutex
	calm     bool                   // there are no requests any more
	stats    map[string]steal.Stats // by address
	overdue  []time.Duration        // how long collected sessions were due; not of slices that timed out
	late     int                    // how many of these came when it was calm
	recruits []recruit

	serving  time.Duration
	backlog  int64 // sessions that are due, when last looked
	greatest int64 // of that, while there were requests
	atEnd    int64 // of that, when the requests ended
	left     int64 // sessions in the end

	stuckAt  int64 // that many sessions were left when it was last less
	idleThen int64 // and so many recruits had found none
}

func playSteal(ctx context.Context, st *stage) (seen Scene, err error) {
	p := &stealPlay{stage: st, found: make(chan string, sites), stats: make(map[string]steal.Stats)}
	defer func() {
		err = errors.Join(err, p.cleanUp(ctx, func(ctx context.Context) (int64, error) {
			return p.unlink(ctx, pagesKey(p.name), sessionsKey(p.name), dueKey(p.name), signsKey(p.name))
		}))
	}()
	if err := p.perform(ctx); err != nil {
		return seen, err
	}
	return p.judge(), nil
}

// perform has the sites visited, and the last sessions collected.
func (p *stealPlay) perform(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	crew := p.crew(p.hear, cancel)
	defer crew.dismiss(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)

	var addresses []string
	for range sites {
		if err := crew.hire(); err != nil {
			return err
		}
	}
	for range sites {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case address := <-p.found:
			addresses = append(addresses, address)
		}
	}

	p.crowd = newCrowd(addresses)
	start := time.Now()
	visited := make(chan error, 1)
	work.Go(func() { visited <- p.crowd.visit(ctx, start.Add(p.duration)) })
	if err := p.watch(ctx, start, visited); err != nil {
		return err
	}
	p.serving = time.Since(start)
	if err := p.drain(ctx, start); err != nil {
		return err
	}
	crew.dismiss(ctx) // the last recruits are counted when it says what became of them
	return nil
}

// hear takes in what a site told.
func (p *stealPlay) hear(line []byte) {
	var news siteNews
	if json.Unmarshal(line, &news) != nil || news.Address == "" {
		return // not ours: a runtime may print what it likes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.stats[news.Address]; !known {
		p.found <- news.Address
	}
	p.stats[news.Address] = news.Stats
	p.recruits = append(p.recruits, news.Recruits...)
	for _, ms := range news.Overdue {
		p.overdue = append(p.overdue, time.Duration(ms)*time.Millisecond)
	}
	if p.calm {
		p.late += len(news.Overdue)
	}
}

// watch shows progress and looks for the greatest backlog while there are
// requests.
func (p *stealPlay) watch(ctx context.Context, start time.Time, visited <-chan error) error {
	tick := time.NewTicker(watchEvery / 4)
	defer tick.Stop()
	for {
		select {
		case err := <-visited:
			return err
		case <-tick.C:
			if err := p.look(ctx, start); err != nil {
				return err
			}
			p.greatest, p.atEnd = max(p.greatest, p.backlog), p.backlog
		}
	}
}

// drain waits until the floor has collected all sessions, and has run the job
// that is never drawn. Nobody makes requests any more.
func (p *stealPlay) drain(ctx context.Context, start time.Time) error {
	p.mu.Lock()
	p.calm = true
	p.mu.Unlock()
	tick := time.NewTicker(watchEvery / 4)
	defer tick.Stop()
	for {
		if err := p.look(ctx, start); err != nil {
			return err
		}
		if p.settled() { // the checks tell what is left
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// settled reports whether the floor has run both jobs in each site, and all sessions are
// collected or, although they are due, recruits find none any more.
func (p *stealPlay) settled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum, _ := p.sum(collectJob)
	if p.left != p.stuckAt || p.backlog == 0 {
		p.stuckAt, p.idleThen = p.left, sum.Idle
	}
	done := p.left == 0 && sum.Recruited() > 0
	return p.signed() && (done || sum.Idle >= p.idleThen+idleAtMost)
}

// look counts the sessions that are due and those that are there, and shows how
// things are.
func (p *stealPlay) look(ctx context.Context, start time.Time) error {
	err := p.count(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	elapsed := time.Since(start)
	requests, sessions := p.crowd.requests.Load(), p.crowd.sessions.Load()
	p.mu.Lock()
	sum, _ := p.sum(collectJob)
	p.mu.Unlock()
	p.screen.Show(screen.Frame{
		Title: "steal",
		Done:  min(elapsed, p.duration),
		Whole: p.duration,
		Rows: [][]string{
			{
				grouped(requests) + " requests",
				grouped(perSecond(requests, min(elapsed, p.duration))) + "/s",
				percent(p.crowd.hits.Load(), requests) + " hits",
			},
			{
				grouped(int64(sum.Recruited())) + " recruited",
				grouped(sessions) + " sessions",
				grouped(p.backlog) + " overdue",
			},
		},
	})
	return nil
}

// count asks the server for its time and the sessions.
func (p *stealPlay) count(ctx context.Context) error {
	clock, err := p.client.Do(ctx, p.client.B().Time().Build()).AsIntSlice()
	if err != nil {
		return err
	}
	now := strconv.FormatInt(clock[0]*1000+clock[1]/1000, 10)
	due := p.client.B().Zcount().Key(dueKey(p.name)).Min("-inf").Max(now).Build()
	all := p.client.B().Hlen().Key(sessionsKey(p.name)).Build()
	replies := p.client.DoMulti(ctx, due, all)
	var errs [2]error
	p.backlog, errs[0] = replies[0].AsInt64()
	p.left, errs[1] = replies[1].AsInt64()
	return errors.Join(errs[:]...)
}
