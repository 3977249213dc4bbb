package browsertest

import (
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestHandBack selects a message in flight on the page of the readers, and hands it back.
func TestHandBack(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	b := open(t)
	click := func(selector string) {
		b.await("that the page is loaded", `document.readyState === 'complete'`)
		eval[chromedp.Void](b, `document.querySelector(`+strconv.Quote(selector)+`).click()`)
	}
	before, err := town.orders.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.visit(town.url + "/queues/orders/readers")
	click("[data-pick]")
	click("[data-opens=ask-return]")
	b.await("the question", `document.querySelector('#ask-return').open`)
	click("[data-does=ask-return]")
	b.await("that it says so", `document.querySelector('[data-flash=good]')?.textContent.includes('1 message handed back.')`)
	after, err := town.orders.Stats(t.Context())
	if err != nil || after.InFlight != before.InFlight-1 {
		t.Errorf("%d are in flight, before %d: %v", after.InFlight, before.InFlight, err)
	}
	b.visit(town.url + "/queues/reports/readers")
	click("th a[href*='sort=concurrency']")
	b.await("the largest first", `document.querySelector('[aria-sort=descending]') !== null &&
		document.querySelector('[data-reader]').dataset.reader === 'importer'`)
	if said := b.complained(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}
