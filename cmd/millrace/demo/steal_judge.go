package demo

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/steal"
)

const (
	// deviations is how many standard deviations chance may be off: with that
	// many it is about once in a million demos.
	deviations = 5

	// backlogRoom is how many times what falls due between two recruits, on
	// average, may be due at once. The gaps between recruits are exponential, so
	// one of that length comes once in e^20 = 500 million recruits.
	backlogRoom = 20
)

// between is how many sessions begin, and fall due, from one recruit to the
// next on average: it does not depend on how many requests there are.
const between = 1 / (newVisitors * collectRate)

// judge compares what the sites did with what the browsers know. The sites have
// ended.
func (p *stealPlay) judge() Scene {
	var seen Scene
	p.mu.Lock() // what a site said last may just be heard
	defer p.mu.Unlock()
	collect, collectSound := p.sum(collectJob)
	sign, signSound := p.sum(signJob)
	requests, hits, sessions := p.crowd.requests.Load(), p.crowd.hits.Load(), p.crowd.sessions.Load()
	drawn, recruited := int64(collect.Drawn), int64(collect.Recruited())

	least, most := chance(hits, collectRate)
	seen.check("share", drawn >= least && drawn <= most,
		"of %s moments %s were drawn to collect sessions, at a rate of %s: chance allows %s to %s",
		grouped(hits), grouped(drawn), percentOf(collectRate), grouped(least), grouped(most))
	bound := int64(math.Floor(backlogRoom * between))
	seen.check("backlog_bounded", p.greatest <= bound,
		"never more than %s sessions were overdue; the bound, %s, is %d times what falls due from one recruit to the next",
		grouped(p.greatest), grouped(bound), backlogRoom)
	seen.check("all_collected", p.left == 0,
		"every session was collected, the last ones by the floor when there were no requests any more: %s of %s are left",
		grouped(p.left), grouped(sessions))
	seen.check("floor", p.signed() && sign.Drawn == 0,
		"the job of rate 0 was never drawn, and the floor ran it in each of %d processes: %s runs",
		sites, grouped(int64(sign.Floored)))
	seen.check("counted", collectSound && signSound && recruited > 0,
		"every recruit worked, was idle or aborted: %s + %s + %s = %s",
		grouped(int64(collect.Worked)), grouped(int64(collect.Idle)), grouped(int64(collect.Aborted.Sum())), grouped(recruited))

	all, recruiting, took := p.times()
	seen.count("requests", requests, "requests", fmt.Sprintf("%s a second, in %d processes", grouped(perSecond(requests, p.serving)), sites))
	seen.count("hits", hits, "found their page in the cache", percent(hits, requests)+", each a moment to spare")
	seen.count("enlisted", int64(p.enlisted()), "moments, as the recruiters estimate", "from a sample of one in 64")
	seen.count("recruited", recruited, "recruited to collect sessions",
		fmt.Sprintf("%s drawn, %s by the floor", grouped(drawn), grouped(int64(collect.Floored))))
	seen.share("recruited_percent", float64(drawn)/float64(max(1, hits)), "drawn, of all moments", "the rate is "+percentOf(collectRate))
	seen.count("worked", int64(collect.Worked), "found sessions to collect", "")
	seen.count("idle", int64(collect.Idle), "found none", "")
	seen.count("aborted", int64(collect.Aborted.Sum()), "aborted", "no slot was free, or the slice failed")
	seen.count("sessions", sessions, "sessions begun", fmt.Sprintf("each is due after %d ms", sessionLife.Milliseconds()))
	seen.count("collected", sessions-p.left, "sessions collected",
		grouped(p.late)+" by the floor, after the last request")
	seen.count("greatest_backlog", p.greatest, "sessions overdue at most", "")
	seen.count("backlog_at_end", p.atEnd, "sessions overdue when the requests ended", "")
	seen.time("overdue_p99_ms", quantile(p.overdue[:len(p.overdue)-p.late], 0.99), "how long one was overdue (p99)", "while there were requests")
	seen.micros("request_p99_us", quantile(all, 0.99), "time of a request (p99)", "median "+milliseconds(quantile(all, 0.5)))
	seen.micros("recruiting_request_p99_us", quantile(recruiting, 0.99), "of one that recruited (p99)",
		"median "+milliseconds(quantile(recruiting, 0.5))+": the upkeep comes after the response")
	seen.micros("upkeep_p99_us", quantile(took, 0.99), "time of the upkeep (p99)", "median "+milliseconds(quantile(took, 0.5)))
	return seen
}

// sum adds up what became of a job's recruits in all sites, and reports whether
// the numbers of each add up. Call it with mu held.
func (p *stealPlay) sum(job string) (sum steal.JobStats, sound bool) {
	sound = true
	for _, site := range p.stats {
		for _, j := range site.Jobs {
			if j.Name != job {
				continue
			}
			sum.Drawn += j.Drawn
			sum.Floored += j.Floored
			sum.Worked += j.Worked
			sum.Idle += j.Idle
			aborted := j.Aborted.Sum()
			sum.Aborted.Error += aborted
			sound = sound && j.Drawn+j.Floored == j.Worked+j.Idle+aborted
		}
	}
	return sum, sound
}

// signed reports whether the floor has run the job of rate 0 in every site.
// Call it with mu held.
func (p *stealPlay) signed() bool {
	for _, site := range p.stats {
		if !slices.ContainsFunc(site.Jobs, func(j steal.JobStats) bool { return j.Name == signJob && j.Floored > 0 }) {
			return false
		}
	}
	return true
}

// enlisted adds up what the recruiters estimate. Call it with mu held.
func (p *stealPlay) enlisted() (sum uint64) {
	for _, site := range p.stats {
		sum += site.Enlisted
	}
	return sum
}

// times returns how long requests took, those that recruited by themselves, and
// how long what they were recruited for took. Call it with mu held.
func (p *stealPlay) times() (others, recruiting, upkeep []time.Duration) {
	took := maps.Clone(p.crowd.took)
	for _, r := range p.recruits {
		recruiting = append(recruiting, took[r.Request])
		upkeep = append(upkeep, r.Took)
		delete(took, r.Request)
	}
	return slices.Collect(maps.Values(took)), recruiting, upkeep
}

// percentOf writes a chance.
func percentOf(chance float64) string { return fmt.Sprintf("%.2g%%", 100*chance) }

// chance returns how often something may happen in n trials.
func chance(n int64, rate float64) (least, most int64) {
	mean := float64(n) * rate
	off := deviations*math.Sqrt(mean) + deviations
	return int64(math.Ceil(max(0, mean-off))), int64(mean + off)
}

// quantile returns the time below which the share q of times lie.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[int(q*float64(len(sorted)-1))]
}
