package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// counting has a page count the forms that it would send.
const counting = `window.sent = 0; addEventListener('submit', () => window.sent++)`

// TestEnterInAList presses Enter where a person does: with a message chosen, which
// does nothing, and below a name in a dialog, which runs the dialog's action.
func TestEnterInAList(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	b := open(t)
	const pick = "#browser li:first-child [data-pick]"
	b.visit(town.url + "/queues/orders")
	eval[chromedp.Void](b, counting)
	b.do("choosing a message", chromedp.Focus(css(pick)), chromedp.KeyEvent(" "))
	b.await("a message that is chosen", `document.querySelector('[data-opens=ask-cancel]').disabled === false`)
	b.do("Enter", chromedp.KeyEvent(kb.Enter))
	if n := eval[int](b, `window.sent`); n != 0 {
		t.Errorf("Enter on a chosen message sends %d forms", n)
	}

	b.visit(town.url + "/queues/orders?place=dead")
	eval[chromedp.Void](b, counting)
	b.do("asking for a purge", chromedp.Click(css(pick)), chromedp.Click(css("[data-opens=ask-purge]")), chromedp.WaitVisible(css("#ask-purge")))
	b.do("half a name", chromedp.SendKeys(css("#ask-purge-confirm"), "ord"+kb.Enter))
	if n := eval[int](b, `window.sent`); n != 0 {
		t.Errorf("Enter below half a name sends %d forms", n)
	}
	b.do("the whole name", chromedp.SendKeys(css("#ask-purge-confirm"), "ers"+kb.Enter), chromedp.WaitVisible(css("[data-flash=good]")))
	stats, err := town.orders.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := stats.Counters; c.Cancelled != 0 || c.Redriven != 0 || c.Purged != 1 {
		t.Errorf("%d cancelled, %d redriven and %d purged, want 0, 0 and 1", c.Cancelled, c.Redriven, c.Purged)
	}
	if said := b.complained(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}

// TestEnterDrops forgets a parked member with a keyboard.
func TestEnterDrops(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	b := open(t)
	b.visit(town.url + "/icks/search")
	b.do("asking to drop", chromedp.Click(css("#browser [data-pick]")), chromedp.Click(css("[data-opens=ask-drop]")), chromedp.WaitVisible(css("#ask-drop")))
	b.do("confirming", chromedp.SendKeys(css("#ask-drop-confirm"), "search"+kb.Enter), chromedp.WaitVisible(css("[data-flash=good]")))
	stats, err := town.search.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := stats.Counters; c.Retried != 0 || c.Dropped != 1 {
		t.Errorf("%d retried and %d dropped, want 0 and 1", c.Retried, c.Dropped)
	}
}
