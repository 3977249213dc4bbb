package redistest

import (
	"bytes"
	"crypto/rand"
	"flag"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace/millrace/internal/redis/redisproc"
)

// theShared is the test binary's shared server. It is a package-level variable
// since tests of one binary have nothing else in common that could hold it, and
// TestMain runs too early to know whether any test will want a server.
var theShared struct {
	mu   sync.Mutex
	proc *redisproc.Proc
}

// Main runs the tests of a package, ends the shared server and fails the
// package if goroutines are left over. Use it as
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
func Main(m goleak.TestingM, opts ...goleak.Option) {
	// A cluster client sleeps before it asks for the topology again, and closes
	// the connections to nodes that have gone, or that redirected it, five seconds later, whether or not
	// it was closed meanwhile.
	for _, late := range []string{"(*call).DelayDo.func1", "(*clusterClient)._refresh.func2", "(*clusterClient).redirectOrNew.func1"} {
		opts = append(opts, goleak.IgnoreAnyFunction("github.com/redis/rueidis."+late))
	}
	shortModels()
	goleak.VerifyTestMain(mainWithServer{m}, opts...)
}

// shortModels has tests of models, whose steps ask the server several times each, play 25 histories instead of 100 where
// `make more` does not run and no flag says how many. Each run draws others.
func shortModels() {
	if checks := flag.Lookup("rapid.checks"); checks != nil && !More() {
		_ = checks.Value.Set("25") // flags are parsed later
	}
}

// mainWithServer ends the shared server between the tests and the look for
// leaked goroutines.
type mainWithServer struct{ m goleak.TestingM }

func (w mainWithServer) Run() int {
	code := w.m.Run()
	awaitRepeats()
	theShared.mu.Lock()
	defer theShared.mu.Unlock()
	if theShared.proc != nil {
		theShared.proc.Kill()
		theShared.proc.Stop()
	}
	return code
}

// awaitRepeats waits for calls that go on after their callers have gone: shared calls, those that
// hand messages or leases back, and those that sleep for readers. They give up after five seconds.
func awaitRepeats() {
	for end := time.Now().Add(waitTimeout); time.Now().Before(end); time.Sleep(pollSlowly) {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		// A lease is given back in two calls, with a pause between. A sleep whose connection was cut goes on for a second.
		goesOn := false
		for _, name := range []string{"internal/redis/retry.Policy.Do", "lease.(*Locker).giveBack", "fairqueue.(*sleepers).sleep"} {
			goesOn = goesOn || bytes.Contains(stacks, []byte(name))
		}
		if !goesOn {
			return
		}
	}
}

// Shared returns the server that all tests of the binary share, started on
// first use and ended by Main. Tests keep apart by Name; a test that kills,
// pauses, flushes or fills its server takes one from Start instead.
func Shared(t testing.TB) *Server {
	t.Helper()
	binary := Binary(t)
	theShared.mu.Lock()
	defer theShared.mu.Unlock()
	if theShared.proc == nil {
		proc, err := startProc(redisproc.Config{Binary: binary})
		if err != nil {
			t.Fatal(err)
		}
		theShared.proc = proc
	}
	return &Server{t: t, proc: theShared.proc, shared: true}
}

// maxNamePrefix is how many bytes of the test's name a Name keeps.
const maxNamePrefix = 60

// Name returns a new name on each call, below 100 bytes, made of the test's
// name and random letters. It holds ASCII letters, digits, '-' and '_' only,
// so it is safe as the name of a structure and inside a hash tag.
func Name(t testing.TB) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		default:
			return '-'
		}
	}, t.Name())
	return safe[:min(len(safe), maxNamePrefix)] + "-" + rand.Text()[:12]
}
