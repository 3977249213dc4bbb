package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// pages are all pages, by the names of their pictures.
var pages = []struct{ name, path string }{
	{"overview", "/"},
	{"queues", "/queues"},
	{"queue", "/queues/orders"},
	{"flows", "/queues/reports?by=handling"},
	{"dead", "/queues/orders?place=dead"},
	{"readers", "/queues/reports/readers?sort=in_flight&desc=1"},
	{"failures", "/queues/orders/failures"},
	{"tenant", "/queues/orders/tenants/noisy"},
	{"all-tenants", "/queues/orders/tenants/~"},
	{"batches", "/queues/imports/batches"},
	{"batch", "/queues/imports/batches/BATCH"},
	{"schedules", "/schedules"},
	{"schedule", "/queues/orders/schedules/daily"},
	{"icks", "/icks"},
	{"ick", "/icks/search"},
	{"stealing", "/stealing"},
	{"leases", "/leases"},
	{"namespaces", "/namespaces"},
	{"fleet", "/fleet"},
	{"counters", "/counters?name=impressions"},
	{"reasons", "/queues/orders/search"},
	{"search", "/queues/orders/search?state=waiting&text=leave"},
	{"matching", "/queues/orders/search?state=dead&reason=the+address+does+not+exist"},
	{"write", "/queues/orders/write"},
	{"audit", "/audit"},
	{"doctor", "/doctor"},
}

// screens are the screens on which the test opens the pages.
var screens = []struct {
	name   string
	width  int64
	height int64
	scheme string
}{
	{"light", 1280, 900, "light"},
	{"dark", 1280, 900, "dark"},
	{"phone", 390, 844, "light"},
}

// wideScreen is the width of a large screen, on which the pages need no picture.
const wideScreen = 2000

// pictures is the folder of the pictures, seen from this package.
const pictures = "../../build/screenshots"

// TestPages opens each page on each screen: it has numbers, its charts are drawn,
// it is no wider than the screen, and the console has nothing to say.
func TestPages(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	b := open(t)
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, screen := range screens {
		b.look(screen.width, screen.height, screen.scheme)
		for _, page := range pages {
			t.Run(screen.name+"/"+page.name, func(t *testing.T) {
				b.t = t
				b.visit(town.url + strings.Replace(page.path, "BATCH", town.batch, 1))
				// Reading the pixels of the chart itself twice logs a warning; a copy does not.
				b.await("charts", `[...document.querySelectorAll('figure.chart')].every(f => {
					const c = f.querySelector('canvas')
					if (!c || !c.width) return false
					const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true})
					copy.drawImage(c, 0, 0)
					return copy.getImageData(0, 0, c.width, c.height).data.some(x => x > 0)
				})`)
				if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > screen.width {
					t.Errorf("%s is %d pixels wide, on a screen of %d", page.path, wide, screen.width)
				}
				picture := run(b, "a picture", chromedp.FullScreenshot(100))
				path := filepath.Join(pictures, fmt.Sprintf("%s-%s.png", page.name, screen.name))
				if err := os.WriteFile(path, picture, 0o644); err != nil {
					t.Fatal(err)
				}
				if screen.name == "light" {
					b.look(wideScreen, screen.height, screen.scheme)
					if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > wideScreen {
						t.Errorf("%s is %d pixels wide, on a screen of %d", page.path, wide, wideScreen)
					}
					b.look(screen.width, screen.height, screen.scheme)
				}
				if said := b.complained(); len(said) > 0 {
					t.Errorf("the console says %q", said)
				}
			})
		}
		b.t = t
	}
}

// look has the browser be a screen of that size, in light or dark.
func (b *browser) look(width, height int64, scheme string) {
	b.t.Helper()
	b.do("the screen", func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err1 := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
		})
		_, err2 := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, errors.Join(err1, err2)
	})
}
