package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

const (
	// childEnv makes the test binary a process that fetches: "URL name callers".
	childEnv = "MILLRACE_TEST_FETCHER"

	// shortHold is for how long the children hold a lease without renewing it.
	shortHold = 500 * time.Millisecond
)

// herd is many callers of one key in one process. Their load takes until the key
// "open" exists, and is counted in "loads".
type herd struct {
	cache  *Cache
	client rueidis.Client
	name   string
}

func (h herd) load(ctx context.Context) (string, error) {
	if err := do(h.client, "INCR", h.name+":loads").Error(); err != nil {
		return "", err
	}
	for {
		if n, err := do(h.client, "EXISTS", h.name+":open").AsInt64(); n == 1 || err != nil {
			return "v", err
		}
		if !retry.Sleep(ctx, 5*time.Millisecond) {
			return "", ctx.Err()
		}
	}
}

// run has so many callers fetch, and calls ready when all of them wait.
func (h herd) run(callers int, ready func()) error {
	failures := make([]error, callers)
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			if v, _, err := Get(context.Background(), h.cache, "k", h.load); v != "v" || err != nil {
				failures[i] = fmt.Errorf("Get = %q, %w", v, err)
			}
		})
	}
	for h.cache.callers() != callers {
		retry.Sleep(context.Background(), time.Millisecond)
	}
	ready()
	running.Wait()
	return errors.Join(failures...)
}

// beChild is a herd in a process of its own, which ends with its standard input.
func beChild(spec string) error {
	var url, name string
	var callers int
	if _, err := fmt.Sscan(spec, &url, &name, &callers); err != nil {
		return err
	}
	c, err := openChild(url, name)
	if err != nil {
		return err
	}
	return untilStdinEnds(func() error {
		h := herd{c.Cache, c.client, name}
		return h.run(callers, func() { fmt.Println("all wait") })
	})
}

// child is a cache in a process of its own.
type child struct {
	*Cache
	client rueidis.Client
}

func openChild(url, name string) (child, error) {
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return child{}, err
	}
	options.DisableCache = true
	client, err := rueidis.NewClient(options)
	if err != nil {
		return child{}, err
	}
	c, err := Open(context.Background(), client, name, Config{Timeout: time.Minute})
	if err != nil {
		return child{}, err
	}
	c.hold, c.timeout = shortHold, patient
	return child{c, client}, nil
}

// untilStdinEnds works, says so, and returns when the parent ends it.
func untilStdinEnds(work func() error) error {
	go func() {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("all have it")
	}()
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// TestHerd: many goroutines of several processes want a missing value, and it is
// computed once.
func TestHerd(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	name, client := redistest.Name(t), server.Client(t)
	const callers, caches, processes = 25, 3, 2
	var children []*redistest.Child
	for range processes {
		children = append(children, redistest.StartChild(t, fmt.Sprintf("%s=%s %s %d", childEnv, server.URL(), name, callers)))
	}
	var waiting, running sync.WaitGroup
	waiting.Add(caches)
	for range caches {
		h := herd{openOn(t, server.Client(t), name, Config{Timeout: time.Minute}), client, name}
		running.Go(func() {
			if err := h.run(callers, waiting.Done); err != nil {
				t.Error(err)
			}
		})
	}
	waiting.Wait()
	for _, child := range children {
		child.Lines(1)
	}
	must(t, client, "SET", name+":open", "1")
	running.Wait()
	for _, child := range children {
		child.Lines(1)
	}
	if n, err := do(client, "GET", name+":loads").AsInt64(); n != 1 || err != nil {
		t.Errorf("%d loads, %v, want 1", n, err)
	}
}

// TestHolderIsKilled: a caller that waits for a process that is killed while it computes,
// computes when the lease ends.
func TestHolderIsKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	name, client := redistest.Name(t), server.Client(t)
	child := redistest.StartChild(t, fmt.Sprintf("%s=%s %s 1", childEnv, server.URL(), name))
	redistest.Eventually(t, "the child loads", func() bool {
		n, err := do(client, "EXISTS", name+":loads").AsInt64()
		return n == 1 && err == nil
	})
	c := openOn(t, client, name, Config{})
	s := &source{value: "v"}
	answers := start(t.Context(), c, "k", s)
	awaitCallers(t, c, 1)
	child.Kill()
	wantFrom(t, answers, "v", Miss, nil)
	wantLoads(t, s, 1)
}
