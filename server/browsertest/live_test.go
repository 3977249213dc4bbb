package browsertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/server"
)

const waiting = `Number(document.querySelector('[data-figure=waiting]').textContent.replaceAll(',', ''))`

// TestNumbersChange watches a queue's page while messages are written and acknowledged:
// the numbers follow, and the page is not loaded again.
func TestNumbersChange(t *testing.T) {
	t.Parallel()
	town := build(t, false)
	b := open(t)
	b.visit(town.url + "/queues/orders")
	eval[chromedp.Void](b, `window.sameAsBefore = true`)
	before := eval[int](b, waiting)

	drafts := make([]fairqueue.Draft, 77)
	for i := range drafts {
		drafts[i] = fairqueue.Draft{Tenant: "acme", Body: []byte("hello")}
	}
	if _, err := town.orders.WriteBatch(t.Context(), drafts...); err != nil {
		t.Fatal(err)
	}
	b.await("77 more wait", fmt.Sprintf(`%s === %d`, waiting, before+77))

	acked := eval[int](b, `Number(document.querySelector('[data-figure=acked]').textContent)`)
	messages, err := town.orders.Read(t.Context(), fairqueue.ReadConfig{Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if _, err := town.orders.Ack(t.Context(), m.Receipt); err != nil {
			t.Fatal(err)
		}
	}
	b.await("10 more are acknowledged", fmt.Sprintf(`document.querySelector('[data-figure=acked]').textContent === '%d'`, acked+10))
	if !eval[bool](b, `window.sameAsBefore === true`) {
		t.Error("the page was loaded again")
	}
}

// TestAction pauses a queue by the page, as a person does with a mouse, and deletes
// it, as one does with a keyboard.
func TestAction(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	b := open(t)
	b.visit(town.url + "/queues/orders")
	b.do("asking for a pause", chromedp.Click(css("[data-opens=ask-pause]")), chromedp.WaitVisible(css("#ask-pause")))
	if town.paused(t) {
		t.Fatal("it is paused before anybody confirmed that")
	}
	b.do("confirming", chromedp.Click(css("[data-does=ask-pause]")), chromedp.WaitVisible(css("[data-flash=good]")), chromedp.WaitVisible(css("[data-paused]")))
	if !town.paused(t) {
		t.Error("the page says that it is paused, and it is not")
	}

	b.do("asking for deletion", chromedp.Focus(css("[data-opens=ask-delete]")), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(css("#ask-delete")))
	if !eval[bool](b, `document.querySelector('[data-does=ask-delete]').disabled`) {
		t.Error("it can be deleted before its name was typed")
	}
	b.do("thinking again", chromedp.KeyEvent(kb.Escape), chromedp.WaitNotVisible(css("#ask-delete")))
	b.do("confirming deletion", chromedp.Focus(css("[data-opens=ask-delete]")), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(css("#ask-delete")),
		chromedp.SendKeys(css("#ask-delete-confirm"), "orders"+kb.Enter))
	b.await("the list of queues, without it", `location.pathname === '/queues' && document.querySelector('[data-flash=good]') !== null`)
	if _, err := town.orders.Stats(t.Context()); err == nil || !strings.Contains(err.Error(), "no such queue") {
		t.Errorf("the deleted queue: %v, want none", err)
	}
	if said := b.complained(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}

// TestReadOnly finds no buttons on read-only pages, and a request without a button is
// refused.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	town := build(t, false)
	b := open(t)
	for _, path := range []string{
		"/queues/orders", "/queues/orders?place=dead", "/queues/orders/readers", "/queues/orders/failures", "/queues/orders/tenants/noisy", "/queues/orders/search?state=dead",
		"/queues/orders/write", "/schedules", "/queues/orders/schedules/daily", "/icks/search", "/audit",
	} {
		b.visit(town.url + path)
		if n := eval[int](b, `document.querySelectorAll('form[method=post] button:not(:disabled), dialog, [data-opens]').length`); n > 0 {
			t.Errorf("%s has %d things to press", path, n)
		}
	}
	eval[chromedp.Void](b, `fetch('/queues/orders/pause', {method: 'POST'}).then(async r => { window.said = r.status + ' ' + await r.text() })`)
	b.await("an answer", `window.said !== undefined`)
	if said := eval[string](b, `window.said`); !strings.HasPrefix(said, "403 ") || !strings.Contains(said, "--allow-actions") {
		t.Errorf("a pause is answered with %s, want 403 and what to do", said)
	}
	if town.paused(t) {
		t.Error("it is paused all the same")
	}
}

// TestServiceGoes ends the service under an open page, which says so, and finds the
// next one.
func TestServiceGoes(t *testing.T) {
	t.Parallel()
	town := build(t, false)
	b := open(t)
	b.visit(town.url + "/queues/orders")
	town.end()
	b.await("a page that says that it is not live", `document.documentElement.dataset.link === 'lost'`)
	b.do("a warning", chromedp.WaitVisible(css(".adrift")))
	town.serve(t, strings.TrimPrefix(town.url, "http://"), server.Config{Client: town.client})
	b.await("a live page again", isLive)
}

func (o *town) paused(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stats, err := o.orders.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stats.Paused
}
