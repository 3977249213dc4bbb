package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// judge compares what the namespace and its readers did with what the ledger says.
// The hosts have ended.
func (p *expiryPlay) judge() Scene {
	var seen Scene
	l := p.ledger
	sum := l.sum()
	last := p.looks[len(p.looks)-1]
	drawn, recruited := int64(sum.reaping.Drawn), int64(sum.reaping.Recruited())
	expired := l.ended(last.after)

	seen.check("nothing_after_its_deadline", sum.Late == 0 && sum.Over > 0,
		"no field was found after its deadline: %s of %s reads came after one, and %s of them found it",
		grouped(sum.Over+sum.Late), grouped(sum.Reads), grouped(sum.Late))
	seen.check("nothing_missing_before_it", sum.Early == 0 && sum.Hits > 0,
		"no field was missing before its deadline: %s reads found theirs, and %s did not that should have",
		grouped(sum.Hits), grouped(sum.Early))
	greatest := p.greatest()
	bound := int64(backlogRoom*len(expired)) / max(1, recruited)
	seen.check("garbage_bounded", int64(greatest) <= bound,
		"never more than %s fields were overdue; the bound, %s, is %d times what expires from one recruit to the next",
		grouped(greatest), grouped(bound), backlogRoom)
	least, most := chance(sum.Hits, reapRate)
	seen.check("share", drawn >= least && drawn <= most,
		"of %s moments %s were drawn to reap, at a rate of %.1f%%: chance allows %s to %s",
		grouped(sum.Hits), grouped(drawn), 100*reapRate, grouped(least), grouped(most))
	seen.check("recruits_counted", sum.sound && recruited > 0,
		"every recruit worked, was idle or aborted: %s + %s + %s = %s",
		grouped(int64(sum.reaping.Worked)), grouped(int64(sum.reaping.Idle)), grouped(int64(sum.reaping.Aborted.Sum())), grouped(recruited))
	surely := int64(len(l.ended(last.before))) - sum.Stillborn
	seen.check("fields_counted", last.Reaped > 0 && last.removed() <= int64(len(expired)) && surely <= last.removed()+int64(last.Overdue),
		"what expired was reaped or is overdue: %s expired, %s reaped, %s overdue at the end",
		grouped(len(expired)), grouped(last.removed()), grouped(last.Overdue))

	l.mu.Lock()
	defer l.mu.Unlock()
	for _, failure := range l.failures {
		seen.fail("%s", failure)
	}
	stays := p.stays(expired)
	seen.count("hashes", int64(p.visitors), "hashes", "with two fields that stay, and one that expires")
	seen.count("reads", sum.Reads, "reads", fmt.Sprintf("%s a second, in %d processes", grouped(perSecond(sum.Reads, p.serving)), hosts))
	seen.count("hits", sum.Hits, "found their field", grouped(perSecond(sum.Hits, p.serving))+" a second, each a moment to spare")
	seen.count("reads_after_deadline", sum.Over, "came after its deadline", "and found nothing")
	seen.count("recruited", recruited, "recruited to reap",
		fmt.Sprintf("%s drawn, %s by the floor", grouped(drawn), grouped(int64(sum.reaping.Floored))))
	seen.share("recruited_percent", float64(drawn)/float64(max(1, sum.Hits)), "drawn, of all moments", fmt.Sprintf("the rate is %.1f%%", 100*reapRate))
	seen.count("worked", int64(sum.reaping.Worked), "found fields to reap", "")
	seen.count("idle", int64(sum.reaping.Idle), "found none", "")
	seen.count("aborted", int64(sum.reaping.Aborted.Sum()), "aborted", "no slot was free, or the slice failed")
	seen.count("expired", int64(len(expired)), "fields expired", grouped(perSecond(int64(len(expired)), expiring(expired, last)))+" a second")
	seen.count("renewed", int64(l.renewed), "renewed just before", fmt.Sprintf("%d ms at most", renewBefore.Milliseconds()))
	seen.count("reaped", last.removed(), "fields reaped", "")
	seen.count("greatest_overdue", int64(greatest), "fields overdue at most", p.garbage())
	seen.count("overdue_at_end", int64(last.Overdue), "fields overdue at the end", "")
	seen.time("overdue_p50_ms", quantile(stays, 0.5), "how long one was overdue (median)", "")
	seen.time("overdue_p99_ms", quantile(stays, 0.99), "how long one was overdue (p99)", "")
	seen.time("loading_ms", p.loading, "storing the hashes", "")
	return seen
}

// expiring is for how long fields had been expiring when last looked.
func expiring(expired []time.Time, last expiryLook) time.Duration {
	if len(expired) == 0 {
		return 0
	}
	return last.after.Sub(expired[0])
}

// greatest is how many fields were overdue at most: a hash has one that expires.
func (p *expiryPlay) greatest() int {
	most := 0
	for _, l := range p.looks {
		most = max(most, l.Overdue)
	}
	return most
}

// stays returns for how long each of the fields that expired was there after its
// deadline, at most: what was reaped until a look is counted off in the order of the
// deadlines. One that is still there has stayed until the last look.
func (p *expiryPlay) stays(expired []time.Time) []time.Duration {
	stays := make([]time.Duration, len(expired))
	look := 0
	for i, deadline := range expired {
		for look < len(p.looks)-1 && p.looks[look].removed() <= int64(i) {
			look++
		}
		stays[i] = max(0, p.looks[look].after.Sub(deadline))
	}
	return stays
}

// sparkWidth is how many characters a curve has at most.
const sparkWidth = 28

// spark draws numbers, none of them negative, as a small curve. Where there are more
// than the width, a character is the greatest of several.
func spark(values []int, width int) string {
	if len(values) == 0 {
		return ""
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	top := max(1, slices.Max(values))
	width = min(width, len(values))
	var text strings.Builder
	for i := range width {
		some := values[i*len(values)/width : (i+1)*len(values)/width]
		text.WriteRune(levels[slices.Max(some)*(len(levels)-1)/top])
	}
	return text.String()
}
