package browsertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestReference opens all operations of the page that describes the API: nothing is wider than
// a phone or a screen.
func TestReference(t *testing.T) {
	t.Parallel()
	town := build(t, false)
	b := open(t)
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, screen := range screens {
		b.look(screen.width, screen.height, screen.scheme)
		b.visit(town.url + "/docs")
		operations := eval[int64](b, `[...document.querySelectorAll('[data-operation]')].map(d => d.open = true).length`)
		if operations < 60 {
			t.Errorf("%d operations, want 60 at least", operations)
		}
		if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > screen.width {
			t.Errorf("%d pixels wide, on a screen of %d", wide, screen.width)
		}
		eval[bool](b, `(document.getElementById('receiveMessages').scrollIntoView(), true)`)
		if err := os.WriteFile(filepath.Join(pictures, "docs-open-"+screen.name+".png"), run(b, "a picture", chromedp.CaptureScreenshot()), 0o644); err != nil {
			t.Fatal(err)
		}
		if said := b.complained(); len(said) > 0 {
			t.Errorf("the console says %q", said)
		}
	}
}
