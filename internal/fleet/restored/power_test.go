package restored

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// saved is the content of a member's dump: the tags that had a home there with a value.
type saved map[string]bool

// save has the members of a partition with that role write a dump.
func (w *world) save(dumps map[string]saved, partition int, role devfleet.Role) {
	w.t.Helper()
	for _, s := range w.membersOf(partition) {
		if s.Role != role {
			continue
		}
		c := w.direct(s.Addr)
		if role == devfleet.Replica {
			master := w.direct(w.mapNow().Partitions[partition].Master.Addr)
			redistest.Eventually(w.t, "the replica has all that its master has", func() bool {
				return offset(w.t, master, "master_repl_offset") == offset(w.t, c, "slave_repl_offset")
			})
		}
		must(w.t, c.Do(w.t.Context(), c.B().Save().Build()).Error())
		dumps[s.Addr] = saved{}
		for tag, text := range w.recordsAt(s.Addr) {
			if n, err := c.Do(w.t.Context(), c.B().Exists().Key("{"+tag+"}").Build()).AsInt64(); err == nil && n == 1 && isHome(text, partition) {
				dumps[s.Addr][tag] = true
			}
		}
	}
}

func offset(t *testing.T, c rueidis.Client, name string) string {
	t.Helper()
	text, err := c.Do(t.Context(), c.B().Info().Section("replication").Build()).ToString()
	must(t, err)
	_, rest, _ := strings.Cut(text, name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

func isHome(text string, partition int) bool {
	r, err := members.ParseRecord(text)
	return err == nil && r.Home == partition
}

// direct returns a client of one member.
func (w *world) direct(addr string) rueidis.Client {
	w.t.Helper()
	c, err := rueidis.NewClient(members.Single(rueidis.ClientOption{}, addr, 0, 0))
	must(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

// recordsAt returns the records of a member, by tag.
func (w *world) recordsAt(addr string) map[string]string {
	w.t.Helper()
	c, ctx := w.direct(addr), w.t.Context()
	keys, err := c.Do(ctx, c.B().Keys().Pattern(members.RecordKey("*")).Build()).AsStrSlice()
	must(w.t, err)
	all := map[string]string{}
	for _, key := range keys {
		text, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString()
		must(w.t, err)
		tag, _ := members.RecordedTag(key)
		all[tag] = text
	}
	return all
}

// TestAllMembersLosePower after tags were moved, and come back with dumps of different ages. In
// the end each tag has one home, or none and is marked, and no elected master has lost a value of
// a tag whose home it was by its dump.
func TestAllMembersLosePower(t *testing.T) {
	t.Parallel()
	type dump struct {
		partition int
		role      devfleet.Role
	}
	master := func(partition int) dump { return dump{partition, devfleet.Master} }
	replica := func(partition int) dump { return dump{partition, devfleet.Replica} }
	for _, tc := range []struct {
		name          string
		replicas      int
		early, middle []dump  // before anything is moved, and before the last tags are
		order         [][]int // the partitions that are started together
	}{
		{name: "the source has an old dump", replicas: devfleet.NoReplicas, early: []dump{master(0), master(2)}, middle: []dump{master(1)}, order: [][]int{{0, 1, 2}}},
		{name: "the source is examined first", replicas: devfleet.NoReplicas, early: []dump{master(0), master(2)}, middle: []dump{master(1)}, order: [][]int{{0, 2}, {1}}},
		{name: "the destination is examined first", replicas: devfleet.NoReplicas, early: []dump{master(0), master(2)}, middle: []dump{master(1)}, order: [][]int{{1, 2}, {0}}},
		{name: "the destination has an old dump", replicas: devfleet.NoReplicas, early: []dump{master(1), master(2)}, middle: []dump{master(0)}, order: [][]int{{0, 1, 2}}},
		{name: "the old master of the destination has an old dump", replicas: 1, early: []dump{master(0), replica(0), master(1), master(2), replica(2)}, middle: []dump{replica(1)}, order: [][]int{{0, 1, 2}}},
		{name: "the replica of the destination has an old dump", replicas: 1, early: []dump{master(0), replica(0), replica(1), master(2), replica(2)}, middle: []dump{master(1)}, order: [][]int{{2, 1}, {0}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := start(t, devfleet.Config{Partitions: 3, Replicas: tc.replicas})
			ctx := t.Context()
			const name = "rebuild"
			w.marksIn(name)
			var mu sync.Mutex
			marked := map[string]bool{}
			agent, stop := context.WithCancel(context.Background())
			ended := w.agent(agent, func(ctx context.Context, ick string, tags []string) error {
				if err := w.mark(ctx, ick, tags); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				for _, tag := range tags {
					marked[tag] = true
				}
				return nil
			})
			t.Cleanup(func() { stop(); <-ended })
			dumps := map[string]saved{}
			save := func(some []dump) {
				for _, d := range some {
					w.save(dumps, d.partition, d.role)
				}
			}
			groups := map[string][]string{}
			for group, owner := range map[string]int{"goes": 0, "later": 0, "stays": 0, "other": 2} {
				for i := range 4 {
					tag := w.tagOf(owner, fmt.Sprint(group, "-", i, "-"))
					groups[group] = append(groups[group], tag)
					redistest.Eventually(t, "the fleet takes writes", func() bool { return w.write(ctx, tag) == nil })
				}
			}
			redistest.Eventually(t, "the agent knows all members", func() bool {
				for _, p := range w.mapNow().Partitions {
					for _, m := range p.Members() {
						if m.Run == "" || m.Down {
							return false
						}
					}
				}
				return true
			})
			save(tc.early)
			_, err := w.mover.Move(ctx, 1, slices.Concat(groups["goes"], groups["other"])...)
			must(t, err)
			for _, tag := range slices.Concat(groups["goes"], groups["other"]) {
				must(t, w.write(ctx, tag))
			}
			save(tc.middle)
			_, err = w.mover.Move(ctx, 1, groups["later"]...)
			must(t, err)

			for _, s := range w.servers.Servers() {
				must(t, s.Proc.Kill())
			}
			for _, some := range tc.order {
				for _, id := range some {
					for _, s := range w.membersOf(id) {
						must(t, s.Proc.Restart(ctx))
					}
				}
				redistest.Eventually(t, "they lead again", func() bool {
					return !slices.ContainsFunc(some, func(id int) bool {
						return !slices.ContainsFunc(w.events(id), func(what string) bool {
							return strings.Contains(what, "--doubtful")
						})
					})
				})
			}
			redistest.Eventually(t, "all is compared, and no tag is on its way", func() bool {
				for _, p := range w.mapNow().Partitions {
					if w.pending(p.ID) {
						return false
					}
					for _, text := range w.recordsAt(p.Master.Addr) {
						if strings.Contains(text, " ") {
							return false
						}
					}
				}
				return true
			})

			mu.Lock()
			defer mu.Unlock()
			homes := map[string][]int{}
			for _, p := range w.mapNow().Partitions {
				c := w.direct(p.Master.Addr)
				for tag, text := range w.recordsAt(p.Master.Addr) {
					if isHome(text, p.ID) {
						homes[tag] = append(homes[tag], p.ID)
					}
				}
				for tag := range dumps[p.Master.Addr] {
					if n, err := c.Do(ctx, c.B().Exists().Key("{"+tag+"}").Build()).AsInt64(); n != 1 || err != nil {
						t.Errorf("partition %d had the value of %q when it was elected, and has it no more (%v)", p.ID, tag, err)
					}
				}
			}
			for _, tag := range slices.Concat(groups["goes"], groups["later"], groups["stays"], groups["other"]) {
				if n := len(homes[tag]); n > 1 || n == 0 && !marked[tag] {
					t.Errorf("%q has its home in %v (marked: %t)", tag, homes[tag], marked[tag])
				}
			}
		})
	}
}
