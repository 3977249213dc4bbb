package demo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/steal"
)

const (
	// collectRate is the chance at each moment that sessions are collected, up
	// to collectAtOnce in a slice. With one new session in 40 requests that is
	// room for 2.4 times what falls due, however many requests there are.
	collectRate   = 0.003
	collectAtOnce = 20

	// floor is how long a job may go without a run. It is shorter than the
	// default so that there is something to see of it in a few seconds.
	floor = time.Second

	// budget is how long a recruit may take. It is longer than the default
	// because the server may be far away, and as the slices run beside the
	// connections no visitor waits for them.
	budget = 250 * time.Millisecond

	// sessionLife is how long a session lasts.
	sessionLife = 300 * time.Millisecond

	// newsEvery is how often a site tells what it did.
	newsEvery = 50 * time.Millisecond
)

// Names that browsers and sites share.
const (
	requestHeader = "X-Request"
	sessionHeader = "X-Session" // what a cookie would be
	cacheHeader   = "X-Cache"
	pagePath      = "/page/" // and the page's number
	cacheHit      = "hit"
)

// Names of the jobs.
const (
	collectJob = "sessions.collect"
	signJob    = "site.sign"
)

func pagesKey(name string) string    { return "{" + name + "}:pages" }
func sessionsKey(name string) string { return "{" + name + "}:sessions" }
func dueKey(name string) string      { return sessionsKey(name) + ":due" }
func signsKey(name string) string    { return "{" + name + "}:signs" }

// siteNews is what a site tells: first its address alone, and then what it did.
type siteNews struct {
	Address string      `json:"address"`
	Stats   steal.Stats `json:"stats"` // since it began

	// Since the news before.
	Overdue  []int64   `json:"overdue,omitempty"`  // of sessions collected, in milliseconds
	Recruits []recruit `json:"recruits,omitempty"` // that a request drew and for which a slice ran
}

// recruit is one run of a job that a request drew.
type recruit struct {
	Request int64         `json:"request"`
	Took    time.Duration `json:"took"`
}

// site is the steal scene's child: a web server whose requests do the upkeep.
type site struct {
	client    rueidis.Client
	name      string
	address   string
	scripts   script.Runner
	recruiter *steal.Recruiter

	mu   sync.Mutex
	news siteNews
}

// serveSite serves until it is dismissed.
func serveSite(ctx context.Context, p part) error {
	s := newSite(p)
	return s.play(ctx, p, s.collect)
}

func newSite(p part) *site {
	return &site{client: p.client, name: p.name, scripts: script.Runner{Client: p.client, Scripts: library}}
}

// play is serveSite with any way to collect sessions.
func (s *site) play(ctx context.Context, p part, collect func(context.Context) (millrace.Progress, error)) error {
	s.recruiter = steal.New(steal.Config{Budget: budget, Floor: floor, Hooks: []millrace.Hook{s}})
	if err := cmp.Or(
		s.recruiter.Install(millrace.Job{Name: collectJob, Slice: collect}, collectRate),
		s.recruiter.Install(millrace.Job{Name: signJob, Slice: s.sign}, 0),
	); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for browsers: %w", err)
	}
	s.address = listener.Addr().String()
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: time.Minute}

	ctx, cancel := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	work.Go(func() { cancel(server.Serve(listener)) })
	work.Go(func() { _ = s.recruiter.Run(ctx) }) // it ends with the context
	told := s.tell(ctx, p)

	ending := context.WithoutCancel(ctx) // what hangs ends with the process
	_ = errors.Join(server.Shutdown(ending), server.Close(), s.recruiter.Close(ending))
	return errors.Join(told, p.report(s.since()))
}

// tell reports where the site is, and then what it does, until ctx ends.
func (s *site) tell(ctx context.Context, p part) error {
	if err := p.report(siteNews{Address: s.address}); err != nil {
		return err
	}
	tick := time.NewTicker(newsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if err := p.report(s.since()); err != nil {
				return err
			}
		}
	}
}

// since returns the news since it was last called.
func (s *site) since() siteNews {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.news
	s.news = siteNews{}
	news.Address, news.Stats = s.address, s.recruiter.Stats()
	return news
}

// requestKey is the key of a request's number in its context.
type requestKey struct{}

// handler is what the site serves. The number is put around the middleware,
// which hands the request's values on to the slices that it recruits for.
func (s *site) handler() http.Handler {
	recruiting := steal.Middleware(s.recruiter)(http.HandlerFunc(s.serve))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		number, _ := strconv.ParseInt(req.Header.Get(requestHeader), 10, 64)
		recruiting.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), requestKey{}, number)))
	})
}

// serve answers with a page, from the cache if it is there. A visitor without a
// session gets one.
func (s *site) serve(w http.ResponseWriter, req *http.Request) {
	ctx := req.Context()
	number, err := strconv.Atoi(strings.TrimPrefix(req.URL.Path, pagePath))
	if err != nil {
		http.NotFound(w, req)
		return
	}
	if req.Header.Get(sessionHeader) == "" {
		id := rand.Text()
		if err := s.begin(ctx, id); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set(sessionHeader, id)
	}
	page, hit, err := s.page(ctx, number)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if hit {
		w.Header().Set(cacheHeader, cacheHit)
	}
	_, _ = io.WriteString(w, page) // a browser that has gone misses nothing
	if hit {
		s.recruiter.Enlist(ctx) // the fast exit: this request has a moment to spare
	}
}

// page returns a page and whether it was in the cache.
func (s *site) page(ctx context.Context, number int) (page string, hit bool, err error) {
	field := strconv.Itoa(number)
	page, err = s.client.Do(ctx, s.client.B().Hget().Key(pagesKey(s.name)).Field(field).Build()).ToString()
	if !rueidis.IsRedisNil(err) {
		return page, err == nil, err
	}
	page = "<title>Page " + field + "</title>\n" + strings.Repeat("<p>A paragraph.</p>\n", 50)
	row := s.client.B().Hset().Key(pagesKey(s.name)).FieldValue().FieldValue(field, page).Build()
	return page, false, s.client.Do(ctx, row).Error()
}

// begin begins a session.
func (s *site) begin(ctx context.Context, id string) error {
	life := strconv.FormatInt(sessionLife.Milliseconds(), 10)
	_, err := s.scripts.Run(ctx, "steal_begin", sessionsKey(s.name), id, life, "a basket with nothing in it yet")
	return err
}

// collect is a slice of the job that removes sessions which are over.
func (s *site) collect(ctx context.Context) (millrace.Progress, error) {
	reply, err := s.scripts.Run(ctx, "steal_collect", sessionsKey(s.name), strconv.Itoa(collectAtOnce))
	if err != nil {
		return millrace.Idle, err
	}
	overdue := make([]int64, 0, reply.Len())
	for reply.More() {
		overdue = append(overdue, reply.Int())
	}
	if reply.Err() != nil {
		return millrace.Idle, reply.Err()
	}
	s.mu.Lock()
	s.news.Overdue = append(s.news.Overdue, overdue...)
	s.mu.Unlock()
	switch len(overdue) {
	case 0:
		return millrace.Idle, nil
	case collectAtOnce:
		return millrace.Full, nil
	}
	return millrace.Worked, nil
}

// sign is a slice of a job that more requests do not make more necessary: it
// writes down what the site did so far, for whoever looks after sites.
func (s *site) sign(ctx context.Context) (millrace.Progress, error) {
	text, err := json.Marshal(s.recruiter.Stats())
	if err != nil {
		return millrace.Idle, err
	}
	row := s.client.B().Hset().Key(signsKey(s.name)).FieldValue().FieldValue(s.address, string(text)).Build()
	return millrace.Worked, s.client.Do(ctx, row).Error()
}

// OnRecruit remembers which request a slice ran for.
func (s *site) OnRecruit(ctx context.Context, end steal.Recruited) {
	number, ok := ctx.Value(requestKey{}).(int64)
	if !ok || end.Rounds == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news.Recruits = append(s.news.Recruits, recruit{Request: number, Took: end.Took})
}
