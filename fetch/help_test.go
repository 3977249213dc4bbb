package fetch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

const (
	// long is a time that does not pass during a test.
	long = time.Hour

	// patient is for how long a test waits for an event.
	patient = 20 * time.Second
)

func open(t *testing.T, cfg Config) *Cache {
	t.Helper()
	return openOn(t, redistest.Shared(t).Client(t), redistest.Name(t), cfg)
}

// openOn opens a cache as a process of its own would. A busy machine is no outage.
func openOn(t *testing.T, client rueidis.Client, name string, cfg Config) *Cache {
	t.Helper()
	c, err := Open(t.Context(), client, name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.timeout = patient
	t.Cleanup(func() { redistest.Eventually(t, "all flights have ended", func() bool { return c.callers() < 0 }) })
	return c
}

// callers counts the callers that wait for a flight; -1 when there is none.
func (c *Cache) callers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.flights) == 0 {
		return -1
	}
	n := 0
	for _, f := range c.flights {
		n += f.callers
	}
	return n
}

// awaitCallers waits until so many callers wait for a flight.
func awaitCallers(t *testing.T, c *Cache, want int) {
	t.Helper()
	redistest.Eventually(t, "the callers wait", func() bool { return c.callers() == want })
}

// source is where values come from.
type source struct {
	value string
	err   error
	gate  chan struct{} // if there is one, loads wait until it is closed
	begun chan struct{} // if there is one, each load sends on it

	mu                   sync.Mutex
	loads, running, most int
}

func (s *source) load(context.Context) (string, error) {
	s.mu.Lock()
	s.loads++
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	if s.begun != nil {
		s.begun <- struct{}{}
	}
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	return s.value, s.err
}

func (s *source) counts() (loads, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads, s.most
}

// blocked returns a source whose loads wait for the gate, which opens at the
// latest when the test ends.
func blocked(t *testing.T, value string) (s *source, release func()) {
	t.Helper()
	s = &source{value: value, gate: make(chan struct{}), begun: make(chan struct{}, 1000)}
	release = sync.OnceFunc(func() { close(s.gate) })
	t.Cleanup(release)
	return s, release
}

// got is the result of a call.
type got struct {
	value string
	Result
	err error
}

// start calls Get in the background.
func start(ctx context.Context, c *Cache, key string, s *source) <-chan got {
	answers := make(chan got, 1)
	go func() {
		value, r, err := Get(ctx, c, key, s.load)
		answers <- got{value, r, err}
	}()
	return answers
}

// want calls Get and checks the result.
func want(t *testing.T, c *Cache, key string, s *source, value string, o Outcome, wantErr error) Result {
	t.Helper()
	found, r, err := Get(t.Context(), c, key, s.load)
	checkGot(t, got{found, r, err}, value, o, wantErr)
	return r
}

// wantFrom checks the result of a call in the background.
func wantFrom(t *testing.T, answers <-chan got, value string, o Outcome, wantErr error) {
	t.Helper()
	select {
	case g := <-answers:
		checkGot(t, g, value, o, wantErr)
	case <-time.After(patient):
		t.Fatal("the call does not return")
	}
}

func checkGot(t *testing.T, g got, value string, o Outcome, wantErr error) {
	t.Helper()
	if g.value != value || g.Outcome != o || !errors.Is(g.err, wantErr) {
		t.Errorf("Get = %q, %v, %v, want %q, %v, %v", g.value, g.Outcome, g.err, value, o, wantErr)
	}
}

func wantLoads(t *testing.T, s *source, want int) {
	t.Helper()
	if got, _ := s.counts(); got != want {
		t.Errorf("%d loads, want %d", got, want)
	}
}

// age has the server believe that a value has so long to live.
func age(t *testing.T, c *Cache, key string, left time.Duration) {
	t.Helper()
	if ok, err := c.keys.Expire(t.Context(), key, left); !ok || err != nil {
		t.Fatalf("Expire = %v, %v, want a value that is there", ok, err)
	}
}

func do(client rueidis.Client, args ...string) rueidis.RedisResult {
	return client.Do(context.Background(), client.B().Arbitrary(args...).Build())
}

func must(t *testing.T, client rueidis.Client, args ...string) {
	t.Helper()
	if err := do(client, args...).Error(); err != nil {
		t.Fatal(err)
	}
}
