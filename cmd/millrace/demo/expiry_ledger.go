package demo

import (
	"encoding/json"
	"sort"
	"sync"
	"time"

	"github.com/millrace/millrace/steal"
)

// hostNews is what a host tells.
type hostNews struct {
	Host int `json:"host"` // its number, from 1

	// Since it began.
	hostCounts
	Stats steal.Stats `json:"stats"`

	// Since the news before.
	Began    []int64  `json:"began,omitempty"`   // deadlines of sessions, in Unix milliseconds by the server's clock
	Renewed  []int64  `json:"renewed,omitempty"` // deadlines that do not hold any more
	Failures []string `json:"failures,omitempty"`
}

// hostCounts is what a host's visitors saw.
type hostCounts struct {
	Reads int64 `json:"reads"`
	Hits  int64 `json:"hits"` // of these, that found their field: the moments to spare
	Over  int64 `json:"over"` // of these, that came after the deadline and found nothing

	// Stillborn are sessions that may have been over when they came to be stored, which
	// are then not there at all.
	Stillborn int64 `json:"stillborn"`

	Late  int64 `json:"late"`  // what was found after its deadline
	Early int64 `json:"early"` // what was missing, or another value, before its deadline
}

// sessionLedger is what the scene itself knows: what the hosts told of sessions and
// of reads.
type sessionLedger struct {
	loaded chan struct{} // a host has stored its visitors

	mu        sync.Mutex
	news      map[int]hostNews // the last of each host
	deadlines map[int64]int    // how many sessions end at a millisecond
	renewed   int
	failures  []string
}

func newSessionLedger() *sessionLedger {
	return &sessionLedger{
		loaded:    make(chan struct{}, hosts),
		news:      make(map[int]hostNews),
		deadlines: make(map[int64]int),
	}
}

// hear takes in what a host told.
func (l *sessionLedger) hear(line []byte) {
	var news hostNews
	if json.Unmarshal(line, &news) != nil || news.Host == 0 {
		return // not ours: a runtime may print what it likes
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.news[news.Host]; !known {
		l.loaded <- struct{}{}
	}
	for _, deadline := range news.Began {
		l.deadlines[deadline]++
	}
	for _, deadline := range news.Renewed {
		l.deadlines[deadline]--
	}
	l.renewed += len(news.Renewed)
	l.failures = append(l.failures, news.Failures...)
	l.news[news.Host] = news
}

// hostSum is what all hosts did so far.
type hostSum struct {
	hostCounts

	reaping steal.JobStats // their recruits
	sound   bool           // the recruits of each add up
}

// sum adds up what the hosts told.
func (l *sessionLedger) sum() hostSum {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := hostSum{sound: true}
	for _, news := range l.news {
		all.Reads += news.Reads
		all.Hits += news.Hits
		all.Over += news.Over
		all.Stillborn += news.Stillborn
		all.Late += news.Late
		all.Early += news.Early
		for _, j := range news.Stats.Jobs {
			aborted := j.Aborted.Sum()
			all.reaping.Drawn += j.Drawn
			all.reaping.Floored += j.Floored
			all.reaping.Worked += j.Worked
			all.reaping.Idle += j.Idle
			all.reaping.Aborted.Error += aborted
			all.sound = all.sound && j.Drawn+j.Floored == j.Worked+j.Idle+aborted
		}
	}
	return all
}

// ended returns the deadlines that have come until then, in their order.
func (l *sessionLedger) ended(until time.Time) (deadlines []time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ms, sessions := range l.deadlines {
		for range sessions {
			if deadline := time.UnixMilli(ms); !deadline.After(until) {
				deadlines = append(deadlines, deadline)
			}
		}
	}
	sort.Slice(deadlines, func(i, j int) bool { return deadlines[i].Before(deadlines[j]) })
	return deadlines
}
