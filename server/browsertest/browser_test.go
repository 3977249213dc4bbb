package browsertest

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/millrace/millrace/internal/test/redistest"
)

// pageTimeout is how long a page may take over anything.
const pageTimeout = 60 * time.Second

func TestMain(m *testing.M) { redistest.Main(mainWithChromium{m}) }

// mainWithChromium ends the browser after the tests, before the look for leaked goroutines.
type mainWithChromium struct{ m *testing.M }

func (w mainWithChromium) Run() int {
	code := w.m.Run()
	if theChromium.ctx == nil {
		return code
	}
	if err := chromedp.Cancel(theChromium.ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Chromium does not end:", err)
		code = max(code, 1)
	}
	theChromium.end()
	return code
}

// theChromium is the browser of all tests, since it costs more to start one than most tests cost. Each test has a tab and
// cookies of its own.
var theChromium struct {
	once sync.Once
	ctx  context.Context //nolint:containedctx // chromedp keeps its browser there
	end  func()
	err  error
}

// chromium returns the path of the browser. Without one the test is skipped, or fails when CI is
// set.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("there is no Chromium; internal/repo/scripts/test-deps installs it")
	}
	t.Skip("there is no Chromium; internal/repo/scripts/test-deps installs it")
	return ""
}

// startChromium starts the browser of all tests.
func startChromium(path string) {
	allocator, end := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path),
		chromedp.Headless,
		chromedp.NoSandbox, // as root there is none
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-quic", true),
		// Each tab runs as if a person looked at it.
		chromedp.Flag("disable-background-timer-throttling", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.WSURLReadTimeout(pageTimeout),
	)
	tab, closeTab := chromedp.NewContext(allocator)
	theChromium.ctx, theChromium.end = tab, func() { closeTab(); end() }
	theChromium.err = chromedp.Do(theChromium.ctx) // starts it
}

// css selects elements.
type css = chromedp.CSS

// browser is a tab of a test's own.
type browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp keeps its tab there

	mu         sync.Mutex
	complaints []string // of the console, since they were last asked for
}

func open(t *testing.T) *browser {
	t.Helper()
	path := chromium(t)
	theChromium.once.Do(func() { startChromium(path) })
	if theChromium.err != nil {
		t.Fatalf("Chromium does not start: %v", theChromium.err)
	}
	tab, closeTab := chromedp.NewContext(theChromium.ctx, chromedp.WithNewBrowserContext())
	b := &browser{t: t, ctx: tab}
	messages := chromedp.Console(tab)
	var listening sync.WaitGroup
	listening.Go(func() { b.listen(messages) })
	t.Cleanup(func() {
		if err := chromedp.Cancel(tab); err != nil {
			t.Errorf("the tab does not close: %v", err)
		}
		closeTab()
		listening.Wait()
	})
	if err := chromedp.Do(tab, send(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})); err != nil {
		t.Fatalf("no tab opens: %v", err)
	}
	return b
}

// send is an action of one command.
func send[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, tab *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, tab, command, params)
		return chromedp.Void{}, err
	}
}

// listen records the errors and warnings of the console.
func (b *browser) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for m, err := range messages {
		if err != nil {
			return
		}
		if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.IsException() {
			b.mu.Lock()
			b.complaints = append(b.complaints, fmt.Sprintf("%s (%s:%d)", m, m.URL, m.Line))
			b.mu.Unlock()
		}
	}
}

// complained returns the console's errors and warnings since the last call.
func (b *browser) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.complaints
	b.complaints = nil
	return list
}

// run runs one action, which must succeed in time, and returns its value.
func run[T any](b *browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageTimeout)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("%s: %v; the console says %q", what, err, b.complained())
	}
	return value
}

// do runs actions one after the other.
func (b *browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, action := range actions {
		run(b, what, action)
	}
}

// eval returns the value of a piece of JavaScript.
func eval[T any](b *browser, script string) T {
	b.t.Helper()
	return run(b, script, chromedp.Evaluate[T](script))
}

// await waits until a piece of JavaScript is true, on the page that is open by then.
func (b *browser) await(what, script string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageTimeout)
	defer cancel()
	for {
		yes, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
		if err == nil && yes {
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("%s: not within %s: %v; the console says %q", what, pageTimeout, err, b.complained())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// isLive says that the scripts of a page have run, and that it has its stream. Before
// that the page is as the server wrote it, with times in UTC.
const isLive = `document.documentElement.dataset.link === 'live'`

// visit opens a page, and waits until it is live.
func (b *browser) visit(url string) {
	b.t.Helper()
	b.do(url, chromedp.Navigate(url), chromedp.WaitReady(css("main h1")))
	b.await("a live page with numbers", isLive+` && document.querySelector('[data-pulse=live] time') !== null`)
}
