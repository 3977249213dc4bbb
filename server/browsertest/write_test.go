package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestWrite writes a message with the form, after a wrong delay, and sees both in the audit log.
func TestWrite(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	b := open(t)
	before := town.written(t)
	submit := func() {
		b.await("that the page is loaded", `document.readyState === 'complete'`)
		eval[chromedp.Void](b, `document.querySelector('[data-does=write]').click()`)
	}
	b.visit(town.url + "/queues/orders/write")
	b.do("typing", chromedp.SendKeys(css("#tenant"), "acme"), chromedp.SendKeys(css("#body"), "hello"), chromedp.SendKeys(css("#delay"), "soon"))
	submit()
	b.await("the error", `document.querySelector('[data-flash=bad]') !== null && document.querySelector('#body').value === 'hello'`)
	eval[chromedp.Void](b, `document.querySelector('#delay').value = '1m'`)
	submit()
	b.await("that it is written", `document.querySelector('[data-flash=good]')?.textContent.includes('is written')`)
	if after := town.written(t); after != before+1 {
		t.Errorf("%d messages were written, want one", after-before)
	}
	b.visit(town.url + "/audit")
	b.await("both actions", `document.querySelectorAll('[data-action="queue.write"]').length === 2`)
}
