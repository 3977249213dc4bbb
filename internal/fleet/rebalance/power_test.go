package rebalance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

var powerSeed = flag.Int("power-seed", 0, "the only seed of TestPowerLosses, 0 for several")

// power is a fleet whose partitions lose power, and come back with data of any age.
type power struct {
	tf     *testFleet
	f      *fleet.Fleet
	random *rand.Rand
	base   []map[string]string   // the empty partitions
	dumps  [][]map[string]string // of each partition, its data at several times, as DUMP has it
	tags   []string
	epoch  int

	last    map[string]int  // the newest value that was confirmed, but for those of between
	meant   map[string]int  // the newest value that masters had after the last loss of power, or that was written since
	restore map[int]bool    // partitions that are restored, and not compared
	between map[string]bool // values that were written in such a partition: they may be lost
	mu      sync.Mutex
	marked  map[string]bool
	story   []string
}

func startPower(t *testing.T) *power {
	tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{})
	p := &power{tf: tf, f: tf.open()}
	for id := range tf.direct {
		p.base = append(p.base, p.dump(id))
	}
	return p
}

// begin forgets all but the empty fleet.
func (p *power) begin(seed int) {
	p.random = rand.New(rand.NewPCG(uint64(seed), 0))
	p.last, p.meant, p.restore = map[string]int{}, map[string]int{}, map[int]bool{}
	p.between, p.marked, p.story, p.tags, p.dumps = map[string]bool{}, map[string]bool{}, nil, nil, nil
	for id := range p.tf.direct {
		p.load(id, p.base[id])
		p.dumps = append(p.dumps, []map[string]string{p.base[id]})
	}
	for i := range 4 {
		p.tags = append(p.tags, p.tf.tagOf(i%3, fmt.Sprint(seed, "-", i, "-")))
	}
}

func (p *power) tell(format string, args ...any) {
	p.story = append(p.story, fmt.Sprintf(format, args...))
}

// dump returns all that a partition has.
func (p *power) dump(id int) map[string]string {
	c, ctx, all := p.tf.direct[id], p.tf.t.Context(), map[string]string{}
	keys, err := c.Do(ctx, c.B().Keys().Pattern("*").Build()).AsStrSlice()
	must(p.tf.t, err)
	for _, key := range keys {
		text, err := c.Do(ctx, c.B().Dump().Key(key).Build()).ToString()
		must(p.tf.t, err)
		all[key] = text
	}
	return all
}

func (p *power) load(id int, data map[string]string) {
	c, ctx := p.tf.direct[id], p.tf.t.Context()
	must(p.tf.t, c.Do(ctx, c.B().Flushall().Build()).Error())
	for key, text := range data {
		must(p.tf.t, c.Do(ctx, c.B().Restore().Key(key).Ttl(0).SerializedValue(text).Build()).Error())
	}
}

// valueAt returns the value of a tag that counts in a partition, 0 for none: the tag is there, or
// was moved away and has its old keys.
func (p *power) valueAt(id int, tag string) int {
	text, err := get(p.tf.t.Context(), p.tf.direct[id], members.RecordKey(tag))
	must(p.tf.t, err)
	r, err := parseRecord(text)
	to, _, going := r.to()
	if err != nil || r.Home != id && (!going || to != r.Home) {
		return 0
	}
	return p.keyAt(id, tag)
}

func (p *power) keyAt(id int, tag string) int {
	text, err := get(p.tf.t.Context(), p.tf.direct[id], "{"+tag+"}")
	must(p.tf.t, err)
	value, _ := strconv.Atoi(text)
	return value
}

// lose has some partitions lose power. Each comes back with its present or earlier data.
func (p *power) lose() {
	t, ctx := p.tf.t, p.tf.t.Context()
	some := p.random.Perm(3)[:1+p.random.IntN(3)]
	for _, id := range some {
		p.dumps[id] = append(p.dumps[id], p.dump(id))
		age := p.random.IntN(len(p.dumps[id]))
		p.load(id, p.dumps[id][age])
		p.tell("partition %d loses power, and has dump %d of %d", id, age, len(p.dumps[id]))
		p.epoch++
		c := p.tf.direct[id]
		must(t, c.Do(ctx, c.B().Del().Key(members.RestoredKey).Build()).Error())
		must(t, c.Do(ctx, c.B().Hset().Key(members.RestoredKey).FieldValue().FieldValue("epoch", fmt.Sprint(p.epoch)).Build()).Error())
		p.restore[id] = true
	}
	for _, id := range some {
		if p.random.IntN(2) == 0 {
			m, err := p.tf.dir.Confirm(ctx, 0)
			must(t, err)
			_, err = Restored(ctx, slowly, m, id, p.tf.masters[id].Addr())
			must(t, err)
		}
	}
	for _, tag := range p.tags {
		p.meant[tag] = 0
		for id := range p.tf.direct {
			if value := p.valueAt(id, tag); !p.between[fmt.Sprint(tag, value)] {
				p.meant[tag] = max(p.meant[tag], value)
			}
		}
	}
}

// mover returns one that is killed before some step, and may lose power there.
func (p *power) mover(power bool) *Mover {
	m, err := New(p.f, Config{Logger: quiet, Moves: p.tf.dir})
	must(p.tf.t, err)
	var mu sync.Mutex
	n, at := 0, p.random.IntN(60)
	return interrupt(m, func(step, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == at {
			p.tell("killed before %q", step)
			if power {
				p.lose()
			}
		}
		if n >= at {
			return errKilled
		}
		return nil
	})
}

func (p *power) mark(tags []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tag := range tags {
		p.marked[tag] = true
	}
	return nil
}

// write writes a value as a client that remembers nothing.
func (p *power) write(tag string, value int) {
	f := p.tf.open()
	defer f.Close()
	c, ctx := f.Client(), p.tf.t.Context()
	l, err := f.Locate(ctx, tag)
	if err != nil {
		return // two partitions send it to each other
	}
	waits := slices.ContainsFunc(p.tf.records(tag), func(text string) bool { return strings.Contains(text, " !") })
	if waits || c.Do(ctx, c.B().Set().Key("{"+tag+"}").Value(fmt.Sprint(value)).Build()).Error() != nil {
		return
	}
	p.tell("%s = %d in %d: %q", tag, value, l.Partition, p.tf.records(tag))
	if at, err := f.Locate(ctx, tag); err == nil && p.restore[at.Partition] {
		p.between[fmt.Sprint(tag, value)] = true
	} else {
		p.last[tag], p.meant[tag] = value, value
	}
}

// repair repairs the restored partitions as agents do, in any order, with a mover that may be
// killed.
func (p *power) repair(ctx context.Context, m *Mover) (all error) {
	for _, id := range p.random.Perm(3) {
		if !p.restore[id] {
			continue
		}
		failed := m.Tags(ctx, id, p.mark)
		for _, with := range p.random.Perm(3) {
			if with == id {
				continue
			}
			for range 2 {
				done, err := m.Compare(ctx, id, with, "", p.mark)
				if !done {
					err = errors.Join(err, fmt.Errorf("%d has to do with %d", id, with))
				} else {
					failed = errors.Join(failed, err)
					break
				}
				if failed = errors.Join(failed, err); err == nil {
					break
				}
			}
		}
		if failed == nil {
			c := p.tf.direct[id]
			must(p.tf.t, c.Do(ctx, c.B().Del().Key(members.RestoredKey).Build()).Error())
			p.restore[id] = false
			p.tell("partition %d is compared", id)
		}
		all = errors.Join(all, failed)
	}
	return all
}

// history plays some calls, each of which may be cut off, and losses of power between their steps,
// and then lets agents work until no move is left.
func (p *power) history(sabotage func(m *Mover)) error {
	ctx := p.tf.t.Context()
	mover := func(power bool) *Mover {
		m := p.mover(power)
		sabotage(m)
		return m
	}
	for value := 1; value <= 12; value++ {
		tag, aged := p.tags[p.random.IntN(len(p.tags))], p.random.IntN(3)
		p.dumps[aged] = append(p.dumps[aged], p.dump(aged))
		switch n := p.random.IntN(10); {
		case n < 3 || value < 4:
			p.write(tag, value)
		case n < 4:
			id := p.random.IntN(3)
			p.dumps[id] = append(p.dumps[id], p.dump(id))
		case n < 8:
			to := p.random.IntN(3)
			p.tell("%s is moved to %d: %q", tag, to, p.tf.records(tag))
			_, err := mover(n < 6).Move(ctx, to, tag)
			p.tell("that ends with %v: %q", err, p.tf.records(tag))
		case n < 9:
			_ = p.repair(ctx, mover(p.random.IntN(2) == 0))
		case p.random.IntN(2) == 0:
			_, _ = mover(false).resumeAll(ctx)
		default:
			p.lose()
		}
	}
	p.lose()
	m := impatient(p.tf.moverOf(p.f))
	sabotage(m)
	var failed error
	for range 8 {
		failed = p.repair(ctx, m)
		_, err := m.resumeAll(ctx)
		if failed = errors.Join(failed, err); failed == nil {
			break
		}
	}
	if failed != nil {
		return fmt.Errorf("it does not end: %w", failed)
	}
	return p.judge()
}

// judge returns the faults in the end.
func (p *power) judge() (wrong error) {
	ctx := p.tf.t.Context()
	report := func(tag, format string, args ...any) {
		wrong = errors.Join(wrong, fmt.Errorf("%s, with the records %q: %s", tag, p.tf.records(tag), fmt.Sprintf(format, args...)))
	}
	for _, tag := range p.tags {
		var homes []int
		known, is := false, 0
		for id, text := range p.tf.records(tag) {
			if known = known || text != ""; strings.Contains(text, " ") {
				report(tag, "a mark is left")
			}
			if text == fmt.Sprint(id) {
				homes = append(homes, id)
			}
			is = max(is, p.keyAt(id, tag))
		}
		l, err := p.f.Locate(ctx, tag)
		switch {
		case err != nil:
			report(tag, "clients do not find it: %v", err)
		case len(homes) > 1:
			report(tag, "it has the homes %v", homes)
		case len(homes) == 1 && l.Partition != homes[0]:
			report(tag, "clients find it in %d", l.Partition)
		case known && p.keyAt(l.Partition, tag) < p.last[tag] && !p.marked[tag]:
			report(tag, "it has lost %d, and is not marked", p.last[tag])
		}
		if is < p.meant[tag] {
			report(tag, "%d was on a master, and was deleted: the newest value is %d", p.meant[tag], is)
		}
	}
	return wrong
}

// moverOf returns a mover of a process that has opened the fleet.
func (tf *testFleet) moverOf(f *fleet.Fleet) *Mover {
	tf.t.Helper()
	m, err := New(f, Config{Logger: quiet, Moves: tf.dir})
	must(tf.t, err)
	return m
}

// TestPowerLosses plays random histories: calls that move tags are killed at any step, any
// partitions lose power there and come back with data of any age, and so do those that repair
// them. In the end each tag has one home or is marked, and nothing was deleted that a master had.
func TestPowerLosses(t *testing.T) {
	t.Parallel()
	p := startPower(t)
	first, n := 1, 150
	if soak {
		n = 3000
	}
	if *powerSeed > 0 {
		first, n = *powerSeed, 1
	}
	for seed := first; seed < first+n; seed++ {
		p.begin(seed)
		if err := p.history(func(*Mover) {}); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(p.story, "\n"))
		}
	}
}
