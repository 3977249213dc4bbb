package browsertest

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/millrace/millrace/fairqueue"
)

// TestMoments reads times far from the server: they are those of the reader's clock,
// also where the page has changed since, and have a date unless it is today's.
func TestMoments(t *testing.T) {
	t.Parallel()
	town := build(t, true)
	draft := fairqueue.Draft{Tenant: "late", Body: []byte("in two days"), TTL: 50 * time.Hour}
	if _, err := town.orders.Write(t.Context(), draft); err != nil {
		t.Fatal(err)
	}
	there := time.FixedZone("Asia/Tokyo", 9*3600)
	b := open(t)
	b.do("a clock in Tokyo", send(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: there.String()}))

	b.visit(town.url + "/queues/orders?tenant=late")
	if b.moments(there) == 0 {
		t.Error("the deadline is no moment")
	}
	b.await("a later look", `document.querySelector('#pulse time').dateTime > '`+eval[string](b, `document.querySelector('#pulse time').dateTime`)+`'`)
	b.moments(there)
	b.visit(town.url + "/queues/orders")
	eval[chromedp.Void](b, `window.inUTC = 0; (function look() {
		window.inUTC += [...document.querySelectorAll('time')].filter(t => t.title.endsWith(' UTC')).length
		requestAnimationFrame(look)
	})()`)
	b.do("what is in flight", chromedp.Click(css(".tabs a:nth-child(2)")))
	b.await("what is in flight", `document.querySelector('.tabs a:nth-child(2)[aria-current]') !== null`)
	b.moments(there)
	if n := eval[int](b, `window.inUTC`); n > 0 {
		t.Errorf("%d times of the new part were painted as the server wrote them", n)
	}
	for _, path := range []string{"/icks/search", "/leases", "/stealing", "/doctor"} {
		b.visit(town.url + path)
		b.moments(there)
	}
}

// moments looks at the times that a page shows, which are to be those of a zone, and
// returns how many have a date.
func (b *browser) moments(zone *time.Location) (dated int) {
	b.t.Helper()
	type moment struct {
		At          time.Time
		Text, Title string
		Relative    bool
	}
	all := eval[[]moment](b, `[...document.querySelectorAll('time')].map(t => (
		{At: t.dateTime, Text: t.textContent, Title: t.title, Relative: 'relative' in t.dataset}))`)
	for _, m := range all {
		at := m.At.In(zone)
		want, title := at.Format(time.TimeOnly), at.Format("2006-01-02 15:04:05.000 ")+zone.String()
		if at.Format(time.DateOnly) != time.Now().In(zone).Format(time.DateOnly) {
			want = at.Format(time.DateTime)
		}
		if !m.Relative && m.Text != want || m.Title != title {
			b.t.Errorf("%s is shown as %q with the title %q, want %q and %q", m.At, m.Text, m.Title, want, title)
		}
		if !m.Relative && len(m.Text) > len(time.TimeOnly) {
			dated++
		}
	}
	return dated
}
