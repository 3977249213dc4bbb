package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestChartsCatchUp looks away from a page for a while, and back: its charts have the
// samples that they missed.
func TestChartsCatchUp(t *testing.T) {
	t.Parallel()
	town := build(t, false)
	b := open(t)
	b.visit(town.url + "/queues/orders")
	// Other colours draw the chart anew; the test then sees the new plot and its data.
	b.await("a chart", `document.querySelector('#chart-queue canvas') !== null`)
	eval[chromedp.Void](b, `window.plots = []; window.uPlot = class extends uPlot {
		constructor(...all) { super(...all); plots.push(this) }
	}; window.times = () => plots.find(p => document.querySelector('#chart-queue .plot').contains(p.root)).data[0]`)
	b.look(1280, 900, "dark")
	b.await("a chart in the dark", `window.plots.length >= 2 && times().length >= 2`)

	const look = `document.dispatchEvent(new Event('visibilitychange'))`
	eval[chromedp.Void](b, `Object.defineProperty(document, 'hidden', {value: true, configurable: true}); `+look)
	eval[chromedp.Void](b, `window.before = times().at(-1); window.known = 0; window.asking = setInterval(async () => {
		const answer = await fetch(document.querySelector('#chart-queue').dataset.source)
		window.known = (await answer.json()).at.at(-1)
	}, 1000)`)
	b.await("samples that are missed", `window.known > window.before + 12`)
	if grown := eval[bool](b, `times().at(-1) > window.before`); grown {
		t.Fatal("the chart grows while nobody looks")
	}
	eval[chromedp.Void](b, `clearInterval(window.asking); Object.defineProperty(document, 'hidden', {value: false}); `+look)
	b.await("a chart that goes on", `times().at(-1) >= window.known`)
	if gap := eval[int](b, `Math.max(...times().slice(1).map((t, i) => t - times()[i]))`); gap > 10 {
		t.Errorf("the chart lacks what is in %d s", gap)
	}
}
