package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
)

// Codes of findings, those that stop a queue first. They are a contract of JSON and metrics, which
// call them causes.
const (
	NeverRead    = "never_read"
	ReadersGone  = "readers_gone"
	ReaderLost   = "reader_lost"
	NoReader     = "no_reader"
	NoWrites     = "no_writes"
	ScheduleLate = "schedule_late"
	Paused       = "paused"
	Flood        = "flood"
	Slow         = "slow"
	Failing      = "failing"
	TenantFull   = "tenant_full"
	TenantPaused = "tenant_paused"
	Limited      = "limited"
	Old          = "old"
	DeadDropped  = "dead_dropped"
)

// Finding is one thing that is wrong with a queue. Its text lacks the queue's name, with which a
// sentence begins: "has no reader: ...". Its advice may be empty if there is a command.
type Finding struct {
	finding.Finding

	Tenant  string        // that causes it; empty if none does
	Command string        // that stops it, without the program's name; empty if none does
	Waits   time.Duration // for how long the oldest message waits that suffers from it
}

// Advised returns the advice, after the command that stops it if there is one.
func (f Finding) Advised() string {
	if f.Command == "" {
		return f.Advice
	}
	return strings.TrimSpace("Stop it with: millrace " + f.Command + ". " + f.Advice)
}

// maxTenants is how many tenants are named for one setting. The rest are counted.
const maxTenants = 3

// OfQueue returns the problems of a queue, the most urgent first.
func OfQueue(s queuestats.Stats) []Finding {
	q := newQueue(s)
	all := q.readers()
	unread := len(all) > 0
	for _, look := range []func() []Finding{q.paused, q.floods, q.slow} {
		all = append(all, look()...)
	}
	for i := range all {
		if unread && all[i].Severity == finding.Warning { // the others wait for a reader
			all[i].Severity = finding.Note
		}
	}
	urgent := func(f Finding) bool { return f.Severity > finding.Note }
	if !q.Paused && q.oldest >= finding.OldAge && !slices.ContainsFunc(all, urgent) {
		all = append(all, q.old())
	}
	all = append(all, q.lost()...)
	all = append(all, q.tenants()...) // which explain only their own tenants' waiting
	all = append(all, q.failing()...)
	all = append(all, q.schedules()...)
	all = append(all, q.dropped()...)
	sortByUrgency(all)
	return all
}

func sortByUrgency(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) })
}

// of returns a finding that has no text yet.
func of(severity finding.Severity, code, tenant string) Finding {
	return Finding{Finding: finding.New(severity, code, "", ""), Tenant: tenant}
}

// queue has the data that several looks need.
type queue struct {
	queuestats.Stats

	oldest time.Duration // age of the oldest message that no pause and no limit holds back
	held   bool          // it waits for its tenant's share of the handlers
	busy   int           // handlers
}

func newQueue(s queuestats.Stats) *queue {
	q := &queue{Stats: s}
	for _, f := range s.Flows {
		if !f.Paused && !q.limited(f) && f.OldestAge > q.oldest {
			q.oldest, q.held = f.OldestAge, q.why(f) == ForHandlers
		}
	}
	for _, r := range s.Readers {
		q.busy += r.InFlight
	}
	return q
}

// Why says what the next message of a flow waits for.
type Why string

// Reasons.
const (
	ForServer   Why = "server"    // it takes no writes
	ForReader   Why = "reader"    // the queue has none
	ForQueue    Why = "queue"     // it is paused
	ForPause    Why = "pause"     // of its tenant, or a throttle
	ForRate     Why = "rate"      // of its tenant
	ForInFlight Why = "in_flight" // its tenant has its most in flight
	ForHandlers Why = "handlers"  // its tenant has its share of them
	ForTurn     Why = "turn"
)

// Words returns what the message waits for.
func (w Why) Words() string {
	return map[Why]string{
		ForServer: "the server", ForReader: "a reader", ForQueue: "the queue's pause", ForPause: "a pause", ForRate: "its rate",
		ForInFlight: "its most in flight", ForHandlers: "its handlers", ForTurn: "its turn",
	}[w]
}

// Whys are all reasons.
var Whys = []Why{ForServer, ForReader, ForQueue, ForPause, ForRate, ForInFlight, ForHandlers, ForTurn}

// Ages returns how long the oldest message waits for each reason.
func Ages(s queuestats.Stats) map[Why]time.Duration {
	ages, why := map[Why]time.Duration{}, WhyWaits(s)
	for _, f := range s.Flows {
		if f.Waiting > 0 {
			ages[why(f)] = max(ages[why(f)], f.OldestAge)
		}
	}
	return ages
}

// WhyWaits returns what the next message of a flow of a queue waits for.
func WhyWaits(s queuestats.Stats) func(queuestats.Flow) Why {
	q := newQueue(s)
	unread := len(q.readers()) > 0
	return func(f queuestats.Flow) Why {
		why := q.why(f)
		switch {
		case q.Refused != "":
			return ForServer
		case q.Paused:
			return ForQueue
		case unread && why == ForTurn:
			return ForReader
		}
		return why
	}
}

// why returns what the next message of a flow waits for while the queue is read.
func (q *queue) why(f queuestats.Flow) Why {
	switch {
	case f.Paused:
		return ForPause
	case f.NotBefore.After(q.At) && f.ByRate:
		return ForRate
	case f.NotBefore.After(q.At):
		return ForPause
	case f.Held && f.Limits.MaxInFlight > 0 && f.InFlight >= f.Limits.MaxInFlight:
		return ForInFlight
	case f.Held:
		return ForHandlers
	}
	return ForTurn
}

// limited reports whether a tenant's own limit, a pause that ends or a throttle holds its messages back.
func (q *queue) limited(f queuestats.Flow) bool {
	why := q.why(f)
	return f.Stream < 0 && !f.Paused && (why == ForRate || why == ForPause || why == ForInFlight)
}

// free returns how many messages wait that a reader could have, without those of some tenants,
// and for how long the oldest of them waits, negative if Stats does not show it. A pause or a
// rate holds back the others.
func (q *queue) free(without func(queuestats.Flow) bool) (n int, oldest time.Duration) {
	n, oldest = q.Waiting, -1
	for _, f := range q.Flows {
		if without(f) || f.Paused || !f.NotBefore.IsZero() {
			n -= f.Waiting
		} else {
			oldest = max(oldest, f.OldestAge)
		}
	}
	return n, oldest
}

// readers checks whether the queue has readers.
func (q *queue) readers() []Finding {
	if q.Refused != "" {
		f := of(finding.Critical, NoWrites, "")
		f.Waits = q.oldest
		why, _, _ := strings.Cut(strings.TrimSuffix(q.Refused, "."), ". ")
		f.Text = "has a server that takes no writes, so nothing moves, and its readers cannot report: " + why
		f.Advice = "Look at the server's log, and at the space on its disk: millrace doctor. Readers go on by themselves when it takes writes again."
		return []Finding{f}
	}
	n, oldest := q.free(func(queuestats.Flow) bool { return false })
	n = max(0, n)
	if n+q.Abandoned == 0 || q.Paused {
		return nil
	}
	if oldest < 0 { // it is behind the flows that Stats shows
		oldest = q.OldestAge
	}
	f := of(finding.Critical, NoReader, "")
	f.Waits = max(oldest, q.AbandonedAge)
	var lines []string
	if n > 0 {
		lines = append(lines, fmt.Sprintf("%s, the oldest for %s", waits(n), readable.Duration(oldest)))
	} else {
		oldest = 0
	}
	if q.Abandoned > 0 {
		lines = append(lines, fmt.Sprintf("%s abandoned, for up to %s", are(q.Abandoned), readable.Duration(q.AbandonedAge)))
	}
	waiting := strings.Join(lines, "; ")
	var live []queuestats.Reader
	silent := slices.Clone(q.Vanished)
	for _, r := range q.Readers {
		if q.At.Sub(r.LastSeen) < finding.ReaderSilentAge {
			live = append(live, r)
		} else {
			silent = append(silent, r)
		}
	}
	switch {
	case len(live) > 0:
		return nil
	case len(silent) > 0 && (oldest >= finding.OthersWaitAge || q.Abandoned > 0):
		last := slices.MaxFunc(silent, func(a, b queuestats.Reader) int { return a.LastSeen.Compare(b.LastSeen) })
		f.Code = ReadersGone
		f.Text = fmt.Sprintf("has lost its readers without a word: %s was seen last, %s ago. %s", reader(last), readable.Duration(q.At.Sub(last.LastSeen)), capital(waiting))
		f.Advice = "Start them again, and look why they died: killed for memory, or cut off from Redis. What they had in flight comes back by itself."
	case q.Counters.Delivered == 0 && oldest >= finding.UnreadAge:
		f.Code, f.Text = NeverRead, "was never read: "+waiting
		f.Advice = "Start its consumer. If one runs, check that it uses the same name of the queue and the same Redis."
	case q.Counters.Delivered > 0 && q.InFlight == q.Abandoned && (oldest >= finding.UnreadAge || q.AbandonedAge >= finding.AbandonedAge):
		f.Text = "has no reader: " + waiting
		f.Advice = "Start its consumer."
	default:
		return nil
	}
	return []Finding{f}
}

// lost looks for readers that ended without a word, while others live.
func (q *queue) lost() []Finding {
	live := func(r queuestats.Reader) bool { return q.At.Sub(r.LastSeen) < finding.ReaderSilentAge }
	if len(q.Vanished) == 0 || !slices.ContainsFunc(q.Readers, live) {
		return nil
	}
	f := of(finding.Note, ReaderLost, "")
	handlers := 0
	for _, r := range q.Vanished {
		handlers += r.Concurrency
	}
	last := slices.MaxFunc(q.Vanished, func(a, b queuestats.Reader) int { return a.LastSeen.Compare(b.LastSeen) })
	who := reader(last)
	if more := len(q.Vanished) - 1; more > 0 {
		who = readable.Count(len(q.Vanished), "reader") + ", the last one " + who + ","
	}
	f.Text = fmt.Sprintf("has lost %s without a word %s ago, and %s of %d were not replaced", who, readable.Duration(q.At.Sub(last.LastSeen)),
		readable.Count(handlers, "handler"), q.Capacity+handlers)
	if q.busy >= q.Capacity && q.oldest >= finding.UnreadAge && !q.Paused {
		f.Severity, f.Waits = finding.Warning, q.oldest
		f.Text += "; meanwhile the others are busy, and a message waits for " + readable.Duration(q.oldest)
	}
	f.Advice = "Look why it died: killed for memory, or cut off from Redis. Start it again; if it is not needed any more, the notice ends when another reader does, or tomorrow."
	return []Finding{f}
}

func (q *queue) paused() []Finding {
	if !q.Paused || q.Waiting == 0 {
		return nil
	}
	f := of(finding.Note, Paused, "")
	f.Waits, f.Text, f.Command = q.OldestAge, "is paused, and "+waits(q.Waiting), "queue resume "+argument(q.Name)
	if q.OldestAge >= finding.OldAge { // the pause may be forgotten
		f.Severity = finding.Warning
	}
	return []Finding{f}
}

// floods looks for a tenant with most of the messages that wait.
func (q *queue) floods() (all []Finding) {
	for _, u := range q.Flows {
		if u.Stream >= 0 || u.Waiting < finding.FloodMessages || finding.FloodShare*u.Waiting <= q.Waiting || u.Paused || q.Paused || q.limited(u) {
			continue
		}
		f := of(finding.Note, Flood, u.Tenant)
		f.Command = q.tenantCommand("pause", u.Tenant)
		f.Text = fmt.Sprintf("is flooded by %s: %s of %s are its own", named(u.Tenant), readable.Number(u.Waiting), waiting(q.Waiting))
		f.Waits = q.others(u, &f.Text)
		switch {
		case f.Waits >= finding.OthersWaitAge:
			f.Severity = finding.Warning
		case u.OldestAge >= finding.OldAge:
			f.Severity = finding.Warning
			f.Waits = u.OldestAge
			f.Text += fmt.Sprintf("; its own wait for %s", readable.Duration(u.OldestAge))
		}
		f.Advice = q.or(u.Limits.Rate > 0, "its rate", u.Tenant, "--rate N")
		all = append(all, f)
	}
	return all
}

// slow looks for a tenant whose messages have a third of the handlers, and take long.
func (q *queue) slow() (all []Finding) {
	for _, u := range q.Flows {
		slow := u.Handling >= finding.SlowHandling || q.why(u) == ForHandlers && (u.Handling < 0 || u.Handling > finding.QuickHandling)
		if u.Stream >= 0 || !slow || q.Capacity == 0 || finding.SlowShare*u.InFlight < q.Capacity || u.InFlight == 0 || q.Paused {
			continue
		}
		f := of(finding.Note, Slow, u.Tenant)
		f.Command = q.tenantCommand("pause", u.Tenant)
		f.Text = fmt.Sprintf("has slow handlers for %s: its messages have %d of %d", named(u.Tenant), u.InFlight, q.Capacity)
		if u.Handling >= 0 {
			f.Text += fmt.Sprintf(", and take %s each", readable.Duration(u.Handling))
		} else {
			f.Text += ", and none of them has ended yet"
		}
		if f.Waits = q.others(u, &f.Text); f.Waits >= finding.OthersWaitAge {
			f.Severity = finding.Warning
		} else if u.Waiting > 0 && u.OldestAge >= finding.OldAge {
			f.Severity = finding.Warning
		}
		f.Advice = q.or(u.Limits.MaxInFlight > 0, "its most in flight", u.Tenant, "--max-in-flight N")
		all = append(all, f)
	}
	return all
}

// or returns advice to limit a tenant, or to lower the limit that it has.
func (q *queue) or(has bool, limit, tenant, flag string) string {
	what := "limit it"
	if has {
		what = "lower " + limit
	}
	return "Or " + what + ": millrace " + q.tenantCommand("set", tenant) + " " + flag
}

// others returns for how long messages of other tenants wait, and adds it to the text.
func (q *queue) others(u queuestats.Flow, text *string) time.Duration {
	n, longest := q.free(func(f queuestats.Flow) bool { return f.Tenant == u.Tenant })
	if n <= 0 && q.Waiting > u.Waiting {
		*text += "; the others wait for their own limits and pauses"
		return 0
	}
	if n <= 0 {
		*text += "; nobody else waits"
		return 0
	}
	longest = max(0, longest)
	*text += fmt.Sprintf("; meanwhile %s of others, the oldest for %s", waits(n), readable.Duration(longest))
	return longest
}

// tenants looks for tenants whose settings hold their own messages back or refuse them.
func (q *queue) tenants() []Finding {
	var full, paused, limited []Finding
	for _, f := range q.Flows {
		switch {
		case f.Stream >= 0 || f.Waiting == 0:
		case q.limited(f) && !q.Paused && (f.OldestAge >= finding.OldAge || f.Waiting >= finding.FloodMessages):
			limited = append(limited, q.limit(f))
		case f.Limits.MaxWaiting > 0 && f.Waiting >= f.Limits.MaxWaiting:
			n := of(finding.Warning, TenantFull, f.Tenant)
			n.Waits, n.Command = f.OldestAge, q.tenantCommand("show", f.Tenant)
			n.Text = fmt.Sprintf("refuses messages of %s: %s, as many as may", named(f.Tenant), waits(f.Waiting))
			n.Advice = "Its handlers are too slow for what it writes, or its limit is too low."
			full = append(full, n)
		case f.Paused && !q.Paused:
			n := of(finding.Note, TenantPaused, f.Tenant)
			n.Waits, n.Command = f.OldestAge, q.tenantCommand("resume", f.Tenant)
			n.Text = fmt.Sprintf("has %s paused: %s", named(f.Tenant), waits(f.Waiting))
			if f.OldestAge >= finding.TenantPausedAge {
				n.Severity = finding.Warning
				n.Text += ", the oldest for " + readable.Duration(f.OldestAge)
			}
			paused = append(paused, n)
		}
	}
	all := append(q.first(full, "refuses messages of %s more tenants"), q.first(paused, "has %s more tenants paused")...)
	return append(all, q.first(limited, "holds back %s more tenants by their own limits")...)
}

// limit describes a tenant whose own limit holds its messages back. It is no flood: the others go on.
func (q *queue) limit(f queuestats.Flow) Finding {
	n := of(finding.Note, Limited, f.Tenant)
	if f.OldestAge >= finding.OldAge {
		n.Severity = finding.Warning
	}
	set := "If its handlers can take more: millrace " + q.tenantCommand("set", f.Tenant)
	var by string
	if why := q.why(f); why == ForRate {
		by, n.Advice = "its rate", set+" --rate N"
	} else if why == ForInFlight {
		by, n.Advice = fmt.Sprintf("its most in flight, %d", f.Limits.MaxInFlight), set+" --max-in-flight N"
	} else {
		by, n.Command = "a pause or a throttle for another "+readable.Duration(f.NotBefore.Sub(q.At)), q.tenantCommand("resume", f.Tenant)
		n.Advice = "A handler throttles where an API asks it to wait."
	}
	n.Waits, n.Text = f.OldestAge, fmt.Sprintf("holds back %s by %s: %s, the oldest for %s", named(f.Tenant), by, waits(f.Waiting), readable.Duration(f.OldestAge))
	return n
}

// failing looks for tenants whose handlers fail again and again. Others may succeed meanwhile.
func (q *queue) failing() (all []Finding) {
	for _, t := range q.Failing {
		lasts := t.Newest.Sub(t.Oldest)
		if t.Count < finding.FailingCount || float64(t.Count) < finding.FailingRate*lasts.Minutes() || q.At.Sub(t.Newest) >= finding.FailingAge {
			continue
		}
		f := of(finding.Note, Failing, t.Tenant)
		f.Command = q.tenantCommand("pause", t.Tenant)
		f.Text = fmt.Sprintf("has failing handlers for %s: %s deliveries failed in %s", named(t.Tenant), readable.Number(t.Count), readable.Duration(lasts))
		if t.Died > 0 {
			f.Text += ", and " + readable.Count(t.Died, "message") + " died"
		}
		if t.Died > 0 || lasts >= finding.OldAge {
			f.Severity = finding.Warning
		}
		f.Text += fmt.Sprintf("; the last error, %s ago: %s", readable.Duration(q.At.Sub(t.Newest)), readable.Name(t.Reason))
		f.Advice = fmt.Sprintf("Mend what they fail of: millrace queue failures %[1]s --tenant %[2]s. Then: millrace queue retry %[1]s --tenant %[2]s", argument(q.Name), argument(t.Tenant))
		all = append(all, f)
	}
	return q.first(all, "has failing handlers for %s more tenants")
}

// schedules reports ticks that are late.
func (q *queue) schedules() []Finding {
	if q.OverdueSchedules == 0 || q.Refused != "" {
		return nil
	}
	f := of(finding.Critical, ScheduleLate, "")
	f.Text = "has " + readable.Count(q.OverdueSchedules, "overdue schedule") + ": a tick is due for more than a minute"
	f.Advice = "Its readers do not write the messages: the log of a reader says why, as does millrace schedule ls --queue " + argument(q.Name) + "."
	if len(q.Readers) == 0 {
		f.Advice = "Nobody keeps it: start a reader of the queue, or upkeep. If there is upkeep, its log says why the tick waits."
	}
	return []Finding{f}
}

// first returns the most urgent findings, and one that counts the rest: a default concerns all
// tenants.
func (q *queue) first(all []Finding, rest string) []Finding {
	sortByUrgency(all)
	if len(all) <= maxTenants+1 {
		return all
	}
	more := all[maxTenants]
	for _, f := range all[maxTenants:] {
		more.Waits = max(more.Waits, f.Waits)
	}
	more.Tenant, more.Command = "", "queue tenants "+argument(q.Name)
	more.Text = fmt.Sprintf(rest, readable.Number(len(all)-maxTenants))
	return append(all[:maxTenants], more)
}

// dropped looks for dead messages that are gone. A bound that an operator has set is meant so.
func (q *queue) dropped() []Finding {
	n := int(q.Counters.Dropped)
	if n == 0 || q.Dead == 0 {
		return nil
	}
	f := of(finding.Warning, DeadDropped, "")
	f.Text = "has dropped " + readable.Count(n, "dead message") + ", the oldest first"
	f.Advice = fmt.Sprintf("Mend what they died of (millrace queue dead groups %[1]s) and redrive or purge them, or keep more: millrace queue dead keep %[1]s --most N --age TIME", argument(q.Name))
	if q.DeadMost != queuestats.DefaultDeadMost || q.DeadAge != queuestats.DefaultDeadAge {
		f.Severity = finding.Note
	}
	return []Finding{f}
}

func (q *queue) old() Finding {
	f := of(finding.Warning, Old, "")
	f.Waits, f.Text = q.oldest, "has a message that waits for "+readable.Duration(q.oldest)
	switch {
	case q.Capacity > 0 && q.busy >= q.Capacity:
		f.Text += fmt.Sprintf(", and all %d handlers are busy with messages of many", q.Capacity)
		f.Advice = "Add handlers, or readers."
	case q.Capacity > 0:
		f.Text += fmt.Sprintf(", though %d of %d handlers are free", q.Capacity-q.busy, q.Capacity)
		f.Advice = "No limit and no pause holds it back: look at the logs of the readers."
		if q.held {
			f.Text += ": its tenant has its share of them"
			f.Advice = "Make its tenant's handlers faster, or add handlers: millrace queue tenants " + argument(q.Name)
		}
	default:
		f.Advice = "Its readers are not known to the queue: look at their logs."
	}
	return f
}

// tenantCommand is a command for a tenant.
func (q *queue) tenantCommand(verb, tenant string) string {
	return "queue tenant " + verb + " " + argument(q.Name) + " " + argument(tenant)
}

func argument(text string) string { return readable.Argument(text) }

func named(tenant string) string { return "tenant " + readable.Name(tenant) }

func reader(r queuestats.Reader) string {
	if r.Name == "" {
		return "one at " + readable.Name(r.Host)
	}
	return readable.Name(r.Name) + " at " + readable.Name(r.Host)
}

func are(n int) string {
	if n == 1 {
		return "1 message is"
	}
	return readable.Number(n) + " messages are"
}

func waits(n int) string {
	if n == 1 {
		return "1 message waits"
	}
	return readable.Number(n) + " messages wait"
}

func waiting(n int) string { return readable.Number(n) + " waiting messages" }

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
