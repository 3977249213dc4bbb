package browsertest

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestRedriveAGroup finds a group of dead messages by their reason, redrives one tenant's of
// them, purges the others, and finds both in the audit log.
func TestRedriveAGroup(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	b := open(t)
	click := func(selector string) {
		b.await("that the page is loaded", `document.readyState === 'complete'`)
		eval[chromedp.Void](b, `document.querySelector(`+strconv.Quote(selector)+`).click()`)
	}
	before, err := town.orders.Stats(t.Context())
	if err != nil || before.Dead != 3 {
		t.Fatalf("%d are dead, want 3: %v", before.Dead, err)
	}
	b.visit(town.url + "/queues/orders/search")
	click("[data-group='the address does not exist'] a")
	b.await("the group", `document.readyState === 'complete' && location.search.includes('reason=the+address+does+not+exist') && document.querySelectorAll('[data-message]').length === 3`)
	tenant := eval[string](b, `document.querySelector('[data-message] .tenant').textContent`)
	eval[chromedp.Void](b, fmt.Sprintf(`document.querySelector('#tenant').value = %q; document.querySelector('form.inline').requestSubmit()`, tenant))
	b.await("those of a tenant", `document.readyState === 'complete' && document.querySelector('#tenant').value !== '' && document.querySelectorAll('[data-message]').length < 3`)
	n := eval[int](b, `document.querySelectorAll('[data-message]').length`)
	click("[data-opens=ask-redrive-matching]")
	b.await("the question with their number", fmt.Sprintf(`document.querySelector('#ask-redrive-matching[open]')?.textContent.includes('%d dead message')`, n))
	click("[data-does=ask-redrive-matching]")
	b.await("that it says so, and that none is left", fmt.Sprintf(
		`document.querySelector('[data-flash=good]')?.textContent.includes('%d message') && document.querySelectorAll('[data-message]').length === 0`, n))

	b.visit(town.url + "/queues/orders/search?state=dead")
	click("[data-opens=ask-purge-matching]")
	b.await("the question", `document.querySelector('#ask-purge-matching').open && document.querySelector('[data-does=ask-purge-matching]').disabled`)
	eval[chromedp.Void](b, `(() => {
		const input = document.querySelector('#ask-purge-matching-confirm')
		input.value = 'orders'
		input.dispatchEvent(new Event('input', {bubbles: true}))
	})()`)
	click("[data-does=ask-purge-matching]")
	b.await("that it says so", `document.querySelector('[data-flash=good]')?.textContent.includes('deleted')`)
	after, err := town.orders.Stats(t.Context())
	if err != nil || after.Dead != 0 || after.Waiting != before.Waiting+n {
		t.Errorf("%d wait and %d are dead, want %d and none: %v", after.Waiting, after.Dead, before.Waiting+n, err)
	}
	b.visit(town.url + "/audit")
	for _, action := range []string{"queue.redrive-matching", "queue.purge-matching"} {
		if n := eval[int](b, `document.querySelectorAll('[data-action="`+action+`"]').length`); n != 1 {
			t.Errorf("%s is %d times in the audit log", action, n)
		}
	}
	if said := b.complained(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}
