package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// far is how many times as long as the quiet tenants' webhooks the noisy one's
// take, both in the median, at least. In one line for all they take about as long.
const far = 3

// report prints what happened and the verdict, and returns the exit code.
func report(w io.Writer, o outcome) int {
	l := o.ledger
	wrong := o.account()
	alone := l.delays(func(h *hook) bool { return h.tenant != noisyTenant && !h.together })
	together := l.delays(func(h *hook) bool { return h.tenant != noisyTenant && h.together })
	noisy := l.delays(func(h *hook) bool { return h.tenant == noisyTenant })
	if far*quantile(together, 0.5) > quantile(noisy, 0.5) {
		wrong = append(wrong, fmt.Sprintf("the noisy tenant delays the others: in the median theirs take %s, and its own %s, which is not %d times as long",
			shown(quantile(together, 0.5)), shown(quantile(noisy, 0.5)), far))
	}

	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(what, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", what, fmt.Sprintf(format, args...))
	}
	row("accepted", "%d webhooks of %d tenants; %d posted twice under one key, which gave one id", len(l.hooks), o.tenants, l.repeated-l.otherID)
	received, again, dead := 0, 0, map[string]int{}
	for _, h := range l.hooks {
		if h.received > 0 {
			received, again = received+1, again+h.received-1
		}
		if h.reason != "" {
			dead[h.reason]++
		}
	}
	row("delivered", "%d; %d came again, which their id tells", received, again)
	row("attempts failed", "%s", counted(l.failures))
	row("dead letters", "%s", counted(dead))
	row("quiet, alone", "p50 %s, p99 %s", shown(quantile(alone, 0.5)), shown(quantile(alone, 0.99)))
	row("quiet, together", "p50 %s, p99 %s: %.1f and %.1f times as long",
		shown(quantile(together, 0.5)), shown(quantile(together, 0.99)),
		ratio(quantile(together, 0.5), quantile(alone, 0.5)), ratio(quantile(together, 0.99), quantile(alone, 0.99)))
	row("noisy", "p50 %s, p99 %s", shown(quantile(noisy, 0.5)), shown(quantile(noisy, 0.99)))
	row("replaced", "the courier, under load; %d deliveries were cut off by it", o.cut)
	row("took", "%.1f s", o.took.Seconds())
	table.Flush()

	if len(wrong) == 0 {
		fmt.Fprintln(w, "\nevery webhook was delivered or is a dead letter, and quiet tenants did not wait for the noisy one")
		return exitOK
	}
	fmt.Fprintf(w, "\nnot everything is right, in %d ways:\n", len(wrong))
	for _, one := range wrong[:min(len(wrong), 20)] {
		fmt.Fprintln(w, " ", one)
	}
	return exitFailed
}

// account returns what does not add up, a line each.
func (o outcome) account() (wrong []string) {
	l := o.ledger
	is := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	left := o.left
	is(left.Waiting+left.InFlight+left.Delayed > 0,
		"the queue is not empty: %d waiting, %d in flight, %d delayed", left.Waiting, left.InFlight, left.Delayed)
	is(len(l.hooks) == 0, "nothing was posted")
	is(l.otherID > 0, "%d posts that were made again under their key got another id", l.otherID)
	is(l.forgeries > 0, "%d deliveries had a signature that is not good", l.forgeries)
	is(o.cut > 0, "%d deliveries were cut off", o.cut)
	for _, id := range l.strays {
		is(true, "message %s is a dead letter that nobody posted", id)
	}
	for number, h := range l.hooks {
		is(h.id == "", "webhook %d of %s was not accepted", number, h.tenant)
		is(h.id != "" && h.received == 0 && h.reason == "", "webhook %d of %s was accepted as %s, and is neither delivered nor a dead letter", number, h.tenant, h.id)
		is(h.tenant == goneTenant && h.received > 0, "webhook %d was delivered to an endpoint that is no more", number)
	}
	return wrong
}

// counted writes numbers by what they count, the most first.
func counted(of map[string]int) string {
	if len(of) == 0 {
		return "none"
	}
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	var parts []string
	sum := 0
	for _, name := range names {
		sum += of[name]
		parts = append(parts, fmt.Sprintf("%d %s", of[name], name))
	}
	return fmt.Sprintf("%d: %s", sum, strings.Join(parts, ", "))
}

// shown writes a duration as people read it here.
func shown(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

func ratio(longer, shorter time.Duration) float64 {
	if shorter <= 0 {
		return 0
	}
	return float64(longer) / float64(shorter)
}
