package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestCreateASchedule types a cron expression, sees its next ticks, creates the schedule, and
// runs it.
func TestCreateASchedule(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	b := open(t)
	b.visit(town.url + "/schedules/new?queue=orders")
	b.do("typing when", chromedp.SendKeys(css("#zone"), "Europe/Berlin"), chromedp.SendKeys(css("#cron"), "0 3 * * 1-5"))
	b.await("the next ticks", `document.querySelectorAll('#preview [data-tick]').length === 5 &&
		document.querySelector('#preview [data-words]').textContent.startsWith('at 03:00, Monday to Friday')`)
	b.do("typing what", chromedp.SendKeys(css("#name"), "weekdays"), chromedp.SendKeys(css("#tenant"), "acme"), chromedp.SendKeys(css("#body"), "hello"))
	b.do("creating", chromedp.Click(css("[data-does=create]")), chromedp.WaitVisible(css("[data-flash=good]")))
	b.await("that the page is loaded", `document.readyState === 'complete'`)
	if at := eval[string](b, `location.pathname`); at != "/queues/orders/schedules/weekdays" {
		t.Errorf("the browser is at %s", at)
	}
	before := town.written(t)
	eval[chromedp.Void](b, `document.querySelector('[data-opens=ask-run]').click()`)
	b.await("the question", `document.querySelector('#ask-run').open`)
	eval[chromedp.Void](b, `document.querySelector('[data-does=ask-run]').click()`)
	b.await("that it ran", `document.querySelector('[data-flash=good]')?.textContent.includes('is written')`)
	if after := town.written(t); after != before+1 {
		t.Errorf("%d messages were written, want one", after-before)
	}
	if said := b.complained(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}

// written returns how many messages were written to orders.
func (o *town) written(t *testing.T) int64 {
	t.Helper()
	s, err := o.orders.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Counters.Written
}
