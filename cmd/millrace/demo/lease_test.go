package demo

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/redistest"
)

// soundLease is a performance of the lease scene in which all went well.
func soundLease() *leasePlay {
	return &leasePlay{
		cached: 1000, evicted: 500, locksLeft: holdings - 1, leasesLeft: holdings,
		rival:     rivalNews{Tried: holdings, Locks: 1},
		refreshed: holdings, released: holdings,
		full: millrace.ErrFull, evictable: millrace.ErrEvictable,
	}
}

func TestEachCheckOfTheLeaseSceneCanFail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		check string // none when empty
		spoil func(p *leasePlay)
	}{
		{"", func(*leasePlay) {}},
		{"pressure", func(p *leasePlay) { p.evicted = 0 }},
		{"pressure", func(p *leasePlay) { p.locksLeft = holdings }},
		{"leases_stay", func(p *leasePlay) { p.leasesLeft-- }},
		{"one_holder", func(p *leasePlay) { p.rival.Leases = 1 }},
		{"one_holder", func(p *leasePlay) { p.rival = rivalNews{} }},
		{"works_when_full", func(p *leasePlay) { p.refreshed-- }},
		{"works_when_full", func(p *leasePlay) { p.released-- }},
		{"full_is_told", func(p *leasePlay) { p.full = nil }},
		{"full_is_told", func(p *leasePlay) { p.created = true }},
		{"evictable_is_told", func(p *leasePlay) { p.evictable = nil }},
	} {
		p := soundLease()
		test.spoil(p)
		wantFailed(t, p.judge().Checks, test.check)
	}
}

func TestCancelEndsTheLeaseScene(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	cfg := testConfig(server.URL(), leaseScene())
	cfg.Duration = time.Hour
	cfg.embedded = found(t)
	screen := &notes{}
	cfg.Progress, cfg.Live = screen, true
	wantEnd(t, cfg, func() bool { return screen.has("200 of 200 leases left") })
	wantEmpty(t, server.Client(t))
}

func TestABinaryThatCannotBeLookedForIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	cfg := testConfig(server.URL(), leaseScene())
	want := errors.New("the disk is gone")
	cfg.embedded = connect.EmbeddedConfig{Find: func() (string, error) { return "", want }}
	if _, err := Run(t.Context(), cfg); !errors.Is(err, want) {
		t.Errorf("Run = %v, want %v", err, want)
	}
}

// notes are progress that is read while it is written.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) has(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(n.text.String(), text)
}
