package browsertest

import (
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestEveryAction clicks through the actions that have no test of their own.
func TestEveryAction(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	b := open(t)
	click := func(selector string) {
		b.await("that the page is loaded", `document.readyState === 'complete'`)
		eval[chromedp.Void](b, `document.querySelector(`+strconv.Quote(selector)+`).click()`)
	}
	for _, c := range []struct {
		path, word, typed string
		pick              bool
		says              string
	}{
		{"/queues/orders", "pause", "", false, "The queue is paused."},
		{"/queues/orders", "resume", "", false, "The queue is resumed."},
		{"/queues/orders", "resize", "", false, "Each tenant is a flow now."},
		{"/queues/orders", "cancel", "", true, "1 message cancelled."},
		{"/queues/orders?place=dead", "redrive", "", true, "1 message waiting again."},
		{"/queues/orders?place=dead", "purge", "orders", true, "1 message deleted."},
		{"/queues/orders/tenants/noisy", "pause", "", false, "noisy is paused."},
		{"/queues/orders/tenants/noisy", "resume", "", false, "noisy is resumed."},
		{"/queues/orders/schedules/daily", "pause", "", false, "paused"},
		{"/queues/orders/schedules/daily", "resume", "", false, "resumed"},
		{"/queues/orders/schedules/daily", "remove", "", false, "removed"},
		{"/icks/search", "retry", "", true, "1 member marked again."},
	} {
		t.Run(c.word+" on "+c.path, func(t *testing.T) {
			b.t = t
			b.visit(town.url + c.path)
			if c.pick {
				click("[data-pick]")
			}
			click("[data-opens=ask-" + c.word + "]")
			b.await("the question", `document.querySelector('#ask-`+c.word+`').open`)
			if c.typed != "" {
				b.do("confirming", chromedp.SendKeys(css("#ask-"+c.word+"-confirm"), c.typed))
			}
			click("[data-does=ask-" + c.word + "]")
			b.await("that it says so", `document.querySelector('[data-flash=good]')?.textContent.includes('`+c.says+`')`)
			if said := b.complained(); len(said) > 0 {
				t.Errorf("the console says %q", said)
			}
		})
	}
	b.t = t
}
