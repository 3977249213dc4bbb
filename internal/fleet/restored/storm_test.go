package restored

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestPowerStorm has members of all partitions die one by one and lose power together, while
// programs write, tags move, masters are switched and agents are killed. Members come back with
// dumps of any age. In the end each tag has one home, and the data of the database: lost writes
// were marked. MILLRACE_SOAK makes it half an hour.
func TestPowerStorm(t *testing.T) {
	t.Parallel()
	accidents, lasts := 8, time.Duration(0)
	if os.Getenv("MILLRACE_SOAK") != "" {
		accidents, lasts = 40, 30*time.Minute
	}
	began := time.Now()
	for again := true; again && !t.Failed(); again = time.Since(began) < lasts {
		seed := rand.Uint64()
		if text := os.Getenv("MILLRACE_STORM_SEED"); text != "" {
			seed, _ = strconv.ParseUint(text, 10, 64)
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { newPowerStorm(t, seed).run(accidents) })
	}
}

// powerStorm is one run. The marks are in the last partition, which loses one member at a time.
type powerStorm struct {
	*world

	r     *rand.Rand
	tags  []string
	sure  *fleet.Fleet // its writes wait for a replica
	marks *ick.Ick

	dirtyMu sync.Mutex
	dirty   map[string]bool // tags of which a write has failed
	tries   int
}

const marksPartition = 2

func newPowerStorm(t *testing.T, seed uint64) *powerStorm {
	t.Helper()
	s := &powerStorm{world: start(t, devfleet.Config{Partitions: 3, Replicas: 1}), r: rand.New(rand.NewPCG(seed, 1)), dirty: map[string]bool{}}
	name := s.tagOf(marksPartition, "rebuild")
	s.marksIn(name)
	var err error
	s.sure, err = fleet.Open(context.Background(), s.dir, fleet.Config{WaitReplicas: 1, Logger: quiet})
	must(t, err)
	t.Cleanup(s.sure.Close)
	s.marks, err = ick.New(s.sure.Client(), name, ick.Config{Logger: quiet})
	must(t, err)
	for i := range 30 {
		s.tags = append(s.tags, s.tagOf(i%3, fmt.Sprint("tag-", i, "-")))
		s.write(s.tags[i])
	}
	return s
}

// write changes a row of the database, and its value. If that fails, the program knows that the tag is to be written again.
func (s *powerStorm) write(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[tag]++
	s.put(tag)
}

// put writes the value of a row. The caller holds mu.
func (s *powerStorm) put(tag string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c := s.sure.Client()
	err := c.Do(ctx, c.B().Set().Key("{"+tag+"}").Value(fmt.Sprint(s.rows[tag])).Build()).Error()
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	if s.tries++; err != nil {
		s.dirty[tag] = true
	} else {
		delete(s.dirty, tag)
	}
}

// whole reports whether all members of a partition are up and in step.
func (s *powerStorm) whole(partition int) bool {
	m, err := s.dir.Confirm(context.Background(), 0)
	if err != nil || m.Partitions[partition].ReadOnly {
		return false
	}
	for _, member := range m.Partitions[partition].Members() {
		if member.Down || member.Run == "" {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c := s.sure.Client()
	return c.Do(ctx, c.B().Set().Key("{"+s.tagOf(partition, "whole")+"}").Value("x").Build()).Error() == nil
}

// lose kills members at one moment, and starts them again, each after a while of its own.
func (s *powerStorm) lose(all ...devfleet.Server) {
	for _, one := range all {
		must(s.t, one.Proc.Kill())
	}
	s.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, one := range all {
		retry.Sleep(s.t.Context(), time.Duration(s.r.IntN(300))*time.Millisecond)
		must(s.t, one.Proc.Restart(s.t.Context()))
	}
}

func (s *powerStorm) blackout() { s.lose(slices.Concat(s.membersOf(0), s.membersOf(1))...) }

func (s *powerStorm) run(accidents int) {
	redistest.Eventually(s.t, "all is written", func() bool { return len(s.rewrite()) == 0 })
	for _, one := range s.servers.Servers() { // each dump has a record of each tag
		d := s.direct(one.Addr)
		must(s.t, d.Do(s.t.Context(), d.B().Save().Build()).Error())
	}
	life, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	for n := range 2 {
		r := rand.New(rand.NewPCG(s.r.Uint64(), uint64(n)))
		work.Go(func() { // agents, one after the other
			for life.Err() == nil {
				one, kill := context.WithTimeout(life, time.Duration(2+r.IntN(8))*time.Second)
				<-s.agent(one, s.mark)
				kill()
			}
		})
	}
	work.Go(func() { // writes marked tags from the database
		_ = s.marks.Consume(life, ick.ConsumeConfig{}, func(_ context.Context, batch []ick.Entry) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, e := range batch {
				if s.rows[e.Member] > 0 {
					s.put(e.Member)
				}
			}
			return nil
		})
	})
	writing, quiet := context.WithCancel(life)
	var writers sync.WaitGroup
	for range 2 {
		r := rand.New(rand.NewPCG(s.r.Uint64(), 9))
		writers.Go(func() {
			for retry.Sleep(writing, time.Duration(r.IntN(20))*time.Millisecond) {
				s.write(s.tags[r.IntN(len(s.tags))])
			}
		})
	}
	for range accidents {
		s.accident(life)
		retry.Sleep(s.t.Context(), time.Duration(s.r.IntN(1000))*time.Millisecond)
	}
	quiet()
	writers.Wait()
	s.blackout() // writes since the dumps are not repeated, unless their tags are marked
	s.judge()
}

// accident makes one accident, or one change of an operator.
func (s *powerStorm) accident(ctx context.Context) {
	partition := s.r.IntN(3)
	members := s.membersOf(partition)
	kind := []string{"kill", "kill", "save", "save", "power", "power", "blackout", "move", "move", "switch"}[s.r.IntN(10)]
	if partition == marksPartition && kind == "power" || kind == "kill" {
		kind = "kill"
		redistest.Eventually(s.t, "the partition is whole", func() bool { return s.whole(partition) })
	}
	s.t.Log(kind, partition)
	switch kind {
	case "kill":
		s.lose(members[s.r.IntN(len(members))])
	case "power":
		s.lose(members...)
	case "blackout":
		s.blackout()
	case "save":
		d := s.direct(members[s.r.IntN(len(members))].Addr)
		_ = d.Do(ctx, d.B().Save().Build()).Error() // it may be fenced, or copying
	case "move":
		some := make([]string, 3)
		for i := range some {
			some[i] = s.tags[s.r.IntN(len(s.tags))]
		}
		brief, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := s.mover.Move(brief, s.r.IntN(3), some...)
		s.t.Log("moved", some, err)
	case "switch":
		servers := failover.NewRedis(rueidis.ClientOption{})
		defer servers.Close()
		brief, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_ = failover.Switch(brief, s.dir, servers, partition, "", quiet, nil)
	}
}

// rewrite repeats the writes that the program knows to have failed, and returns those that fail again.
func (s *powerStorm) rewrite() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tag := range s.failed() {
		s.put(tag)
	}
	return s.failed()
}

// failed returns the tags of which the last write has failed.
func (s *powerStorm) failed() []string {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	return slices.Sorted(maps.Keys(s.dirty))
}

// unfinished describes the work that remains, "" for none.
func (s *powerStorm) unfinished() string {
	if tags := s.rewrite(); len(tags) > 0 {
		return fmt.Sprint("writes fail: ", tags)
	}
	for _, p := range s.mapNow().Partitions {
		if !s.whole(p.ID) || s.pending(p.ID) {
			return fmt.Sprintf("partition %d is not whole, or not compared", p.ID)
		}
		for tag, text := range s.recordsAt(p.Master.Addr) {
			if strings.Contains(text, " ") {
				return fmt.Sprintf("%q is on its way: partition %d has %q", tag, p.ID, text)
			}
		}
	}
	n, err := s.marks.Stats(s.t.Context())
	if err != nil && !errors.Is(err, millrace.ErrNotFound) || n.Total > 0 { // nothing was ever marked
		return fmt.Sprintf("%d marks are not handled, %v", n.Total, err)
	}
	return ""
}

// judge waits until all is repaired, and reports faults.
func (s *powerStorm) judge() {
	for began, why := time.Now(), "x"; why != ""; {
		if why = s.unfinished(); why != "" && time.Since(began) > 2*time.Minute {
			s.t.Fatalf("after two minutes still not finished: %s; %+v", why, s.mapNow())
		}
		retry.Sleep(s.t.Context(), 100*time.Millisecond)
	}
	if stale := s.stale(); len(stale) > 0 {
		s.t.Errorf("these tags are not as in the database, and were not marked: %v", stale)
	}
	homes, records := map[string][]int{}, map[string][]string{}
	for _, p := range s.mapNow().Partitions {
		for tag, text := range s.recordsAt(p.Master.Addr) {
			if records[tag] = append(records[tag], fmt.Sprintf("%d: %s", p.ID, text)); isHome(text, p.ID) {
				homes[tag] = append(homes[tag], p.ID)
			}
		}
	}
	for _, tag := range s.tags {
		if len(homes[tag]) != 1 {
			s.t.Errorf("%q has its home in %v, by the records %q", tag, homes[tag], records[tag])
		}
	}
	s.t.Logf("%d writes", s.tries)
}
