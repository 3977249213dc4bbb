package browsertest

import (
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace/millrace/fairqueue/queuestats"
)

// TestStopAFlood pauses the tenant with the most messages with one click in the list, opens its
// page, limits it, resumes it and deletes its waiting messages.
func TestStopAFlood(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	noisy := "noisy"
	b := open(t)
	click := func(selector string) {
		b.await("that the page is loaded", `document.readyState === 'complete'`)
		eval[chromedp.Void](b, `document.querySelector(`+strconv.Quote(selector)+`).click()`)
	}
	ask := func(word, typed string) {
		click(`[data-opens=ask-` + word + `]`)
		b.await("the question", `document.querySelector('#ask-`+word+`').open`)
		if typed != "" {
			b.do("confirming", chromedp.SendKeys(css(`#ask-`+word+`-confirm`), typed))
		}
		click(`[data-does=ask-` + word + `]`)
	}
	says := func(words string) {
		b.await("that it says "+words, `document.querySelector('[data-flash=good]')?.textContent.includes('`+words+`')`)
	}
	b.visit(town.url + "/queues/orders")
	click(`[data-quick="tnoisy"]`)
	says("noisy is paused.")
	b.await("that it can be resumed", `document.querySelector('[data-quick="tnoisy"]')?.textContent === 'Resume'`)
	click(`[data-flow="tnoisy"] th a`)
	b.await("that it is paused on its page", `document.querySelector('[data-state]')?.textContent === 'paused'`)

	b.do("typing limits", chromedp.SendKeys(css("#in_flight"), "5"), chromedp.SendKeys(css("#rate"), "100/m"))
	click("[data-does=limits]")
	says("The limits of noisy are changed.")
	l, err := town.orders.Limits().Get(t.Context(), noisy)
	if want := (queuestats.Limits{Weight: 1, MaxInFlight: 5, Rate: 100.0 / 60, Paused: true}); err != nil || l.Limits != want {
		t.Errorf("limits are %+v, %v, want %+v", l, err, want)
	}
	ask("resume", "")
	says("noisy is resumed.")
	ask("purge", "noisy")
	says("messages of noisy deleted.")
	if said := b.complained(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}
