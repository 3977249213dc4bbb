package fairqueue

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// lifetimes are those of readers, by the second: "a=10" is one that has 10 handlers from then on, "a=0" one that leaves, and "a!" one
// that is killed, frozen or cut off. All report every 5 seconds. A number alone is the clock's jump.
type lifetimes struct {
	*clockTest

	living map[string]string
}

func (l *lifetimes) say(id, handlers string) {
	l.t.Helper()
	n, err := strconv.ParseFloat(handlers, 64)
	want(l.t, "handlers", nil, nil, err)
	_, err = l.beat(l.t.Context(), time.Minute, readerOf(reader{id: id, name: id, host: "here", handlers: n}), nil)
	want(l.t, "beat", nil, nil, err)
}

// missed returns the lost readers that are shown, with their handlers that are missed.
func (l *lifetimes) missed(at time.Duration) (lost string, capacity, entries int) {
	l.t.Helper()
	fields, err := do(l.t, l.run.Client, "HGETALL", baseKey(l.name)+":readers").AsStrMap()
	want(l.t, "readers", nil, nil, err)
	s := snapshot{Stats{At: l.start.Add(at)}}
	s.readers(fields)
	var all []string
	for _, r := range s.Vanished {
		all = append(all, fmt.Sprintf("%s:%d", r.Name, r.Concurrency))
	}
	return strings.Join(all, " "), s.Capacity, len(fields) - 1
}

// TestLostReadersAreMissed until others have brought as many handlers, or were told to end.
func TestLostReadersAreMissed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens map[int]string
		wants   map[int]string // the missed ones, and the capacity
	}{
		"one of four is killed": {
			map[int]string{0: "a=3 b=3 c=3 d=3", 20: "b!"},
			map[int]string{20: "; 12", 30: "; 12", 45: "b:3; 9", 300: "b:3; 9", 23 * 3600: "b:3; 9", 25 * 3600: "; 9"},
		},
		"it is replaced later": {
			map[int]string{0: "a=3 b=3 c=3", 20: "b!", 60: "d=2", 80: "e=1"},
			map[int]string{55: "b:3; 6", 65: "b:1; 8", 85: "; 9"},
		},
		"it is replaced before it is missed": {
			map[int]string{0: "a=3 b=3", 20: "b!", 22: "c=3"},
			map[int]string{30: "; 9", 45: "; 6", 300: "; 6"},
		},
		"all are killed and replaced one after the other": {
			map[int]string{0: "a=3 b=3 c=3", 20: "a! d=3", 25: "b! e=3", 30: "c! f=3"},
			map[int]string{40: "; 12", 55: "; 9", 300: "; 9"},
		},
		"two are killed, and one replaces one": {
			map[int]string{0: "a=3 b=3 c=3", 20: "a! b!", 25: "d=3"},
			map[int]string{50: "b:3; 6", 300: "b:3; 6"},
		},
		"a replacement dies as well": {
			map[int]string{0: "a=3 b=3", 20: "a!", 25: "c=3", 35: "c!", 40: "d=3", 50: "d!"},
			map[int]string{60: "; 6", 80: "d:3; 3"},
		},
		"those that came before replace none": {
			map[int]string{0: "a=3 b=3", 20: "c=3", 40: "a!"},
			map[int]string{65: "a:3; 6"},
		},
		"it was frozen": {
			map[int]string{0: "a=3 b=3", 20: "b!", 60: "b=3"},
			map[int]string{55: "b:3; 3", 65: "; 6"},
		},
		"a deploy that leaves with a word": {
			map[int]string{0: "a=3 b=3", 20: "c=3", 25: "a=0", 30: "d=3", 35: "b=0"},
			map[int]string{60: "; 6", 300: "; 6"},
		},
		"half of them leave with a word": {
			map[int]string{0: "a=3 b=3 c=3 d=3", 20: "a=0 b=0"},
			map[int]string{25: "; 6", 60: "; 6"},
		},
		"fewer are wanted afterwards": {
			map[int]string{0: "a=3 b=3 c=3", 20: "b!", 60: "c=0"},
			map[int]string{55: "b:3; 6", 65: "; 3"},
		},
		"the last one leaves with a word": {
			map[int]string{0: "a=1 b=3", 20: "b!", 60: "a=0"},
			map[int]string{55: "b:3; 1", 65: "; 0", 300: "; 0"},
		},
		"all are killed": {
			map[int]string{0: "a=1 b=3", 20: "a! b!"},
			map[int]string{30: "; 4", 40: "a:1 b:3; 0", 3600: "a:1 b:3; 0", 25 * 3600: "; 0"},
		},
		"all are killed, and one comes back": {
			map[int]string{0: "a=1 b=3", 20: "a! b!", 300: "c=3"},
			map[int]string{290: "a:1 b:3; 0", 315: "b:1; 3"},
		},
		"the server was away": {
			map[int]string{0: "a=3 b=3 c=3", 20: "a! b! c!", 60: "b=3", 64: "a=3 c=3"},
			map[int]string{61: "; 3", 65: "; 9", 300: "; 9"},
		},
		"the clock jumps ahead and back": {
			map[int]string{0: "a=3 b=3 c=3", 20: "b!", 60: "3600", 300: "-3600"},
			map[int]string{55: "b:3; 6", 60: "b:3; 3", 65: "b:3; 6", 290: "b:3; 6", 300: "b:3; 3", 310: "; 6"}, // it is forgotten
		},
		"shares of a pool": {
			map[int]string{0: "a=3.333333 b=3.333333 c=3.333333", 20: "b!", 60: "d=1.666667 e=1.666667"},
			map[int]string{55: "b:4; 7", 65: "; 10"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &lifetimes{newClockTest(t), map[string]string{}}
			l.at(0)
			write(t, l.Queue, "a:1")
			var jump time.Duration
			last := max(slices.Max(slices.Collect(maps.Keys(c.happens))), slices.Max(slices.Collect(maps.Keys(c.wants))))
			for second := 0; second <= last; second++ {
				now := time.Duration(second)*time.Second + jump
				for event := range strings.FieldsSeq(c.happens[second]) {
					id, handlers, says := strings.Cut(event, "=")
					killed, dies := strings.CutSuffix(event, "!")
					switch {
					case says:
						l.at(now)
						l.say(id, handlers)
						if l.living[id] = handlers; handlers == "0" {
							delete(l.living, id)
						}
					case dies:
						delete(l.living, killed)
					default:
						seconds, _ := strconv.Atoi(event)
						jump += time.Duration(seconds) * time.Second
						now += time.Duration(seconds) * time.Second
					}
				}
				if second%5 == 0 && (second < 400 || second%3600 == 0) {
					for _, id := range slices.Sorted(maps.Keys(l.living)) {
						l.at(now)
						l.say(id, l.living[id])
						if c.happens[second] == "3600" || c.happens[second] == "-3600" {
							break // the others have not reported since
						}
					}
				}
				if wants, ok := c.wants[second]; ok {
					lost, capacity, entries := l.missed(now)
					want(t, fmt.Sprintf("missed after %d s, and the capacity", second), fmt.Sprintf("%s; %d", lost, capacity), wants, nil)
					if entries > 12 {
						t.Errorf("%d entries", entries)
					}
				}
			}
		})
	}
}

// TestLostReadersAreBounded: of those that nobody replaces, the last ones are kept.
func TestLostReadersAreBounded(t *testing.T) {
	t.Parallel()
	l := &lifetimes{newClockTest(t), map[string]string{}}
	l.at(0)
	write(t, l.Queue, "a:1")
	l.say("living", "1")
	for round := range 2 {
		for i := range 100 {
			l.at(time.Duration(100*round+i) * time.Millisecond)
			l.say(fmt.Sprintf("%03d", 900-i), "1")
		}
	}
	for second := range 10 {
		l.at(time.Duration(5*second+1) * time.Second)
		l.say("living", "1")
	}
	lost, _, entries := l.missed(46 * time.Second)
	want(t, "entries", entries, 33, nil)
	if !strings.HasPrefix(lost, "801:1 ") || !strings.HasSuffix(lost, " 832:1") {
		t.Errorf("missed are %s, want the last ones", lost)
	}
}

// TestAWorkerLeaves: a worker that ends with a word counts at once no longer, through whichever process it said so.
func TestAWorkerLeaves(t *testing.T) {
	t.Parallel()
	q, second := open(t, Config{}), open(t, Config{})
	pool, err := NewPool(4, q, second)
	want(t, "pool", nil, nil, err)
	other := openOn(t, redistest.Shared(t).Client(t), q.name, Config{}) // another process through which it reads
	write(t, q, "a:1 a:2 a:3")
	write(t, second, "a:1")
	cfg := ReadConfig{Worker: "w1", Pool: pool}
	first, _, err := q.Exchange(t.Context(), nil, cfg)
	want(t, "its message", bodies(first), "1", err)
	_, err = other.Read(t.Context(), ReadConfig{Worker: "w1", Concurrency: 4})
	want(t, "its message of another process", nil, nil, err)
	redistest.Eventually(t, "both queues know it", func() bool {
		return len(stats(t, q).Readers) == 1 && len(stats(t, second).Readers) == 1
	})
	leaves := cfg
	leaves.Leave = true
	none, stale, err := q.Exchange(t.Context(), map[string]error{first[0].Receipt: nil}, leaves)
	want(t, "messages and stale of one that leaves", [2]int{len(none), len(stale)}, [2]int{}, err)
	for _, q := range []*Queue{q, second} {
		s := stats(t, q)
		want(t, "readers, vanished, capacity", [3]int{len(s.Readers), len(s.Vanished), s.Capacity}, [3]int{}, nil)
		r, _ := readRaw(t, q)
		want(t, "capacity for the rule", r.capacity, 0.0, nil)
	}
	want(t, "acknowledged", stats(t, q).Counters.Acked, int64(1), nil)
	w := other.shared.workers.of["w1"]
	other.keep("w1", w, 0)
	redistest.Eventually(t, "the other process forgets it", func() bool {
		other.shared.workers.mu.Lock()
		defer other.shared.workers.mu.Unlock()
		return len(other.shared.workers.of) == 0
	})
	want(t, "readers after the report of the other process", len(stats(t, q).Readers), 0, nil)
	_, err = other.Read(t.Context(), ReadConfig{Worker: "w1", Concurrency: 3})
	want(t, "a message of one that comes back", nil, nil, err)
	want(t, "its handlers", stats(t, q).Capacity, 3, nil)
	_, err = q.Read(t.Context(), ReadConfig{Worker: "w1", Leave: true}) // which does not know it any more
	want(t, "leave through a process that it did not read through", nil, nil, err)
	want(t, "readers", len(stats(t, q).Readers), 0, nil)
	_, err = q.Read(t.Context(), ReadConfig{Leave: true})
	wantError(t, err, millrace.ErrBadArgument)
}
