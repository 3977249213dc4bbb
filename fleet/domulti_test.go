package fleet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// newKeys are commands that set keys of new tags, and read some back.
func newKeys(c rueidis.Client, n int) []rueidis.Completed {
	cmds := make([]rueidis.Completed, n)
	for i := range cmds {
		key := fmt.Sprintf("{new:%d}", i/2)
		if i%2 == 0 {
			cmds[i] = c.B().Set().Key(key).Value(fmt.Sprint(i)).Build()
		} else {
			cmds[i] = c.B().Get().Key(key).Build()
		}
	}
	return cmds
}

// TestDoMultiOfNewKeys: finding and placing 5,000 tags takes many times the reply
// limit, which begins to count when the commands are sent.
func TestDoMultiOfNewKeys(t *testing.T) {
	t.Parallel()
	const tags = 5000
	for name, cfg := range map[string]Config{
		"remembered": {},
		"forgotten":  {Placements: 10}, // the cache is smaller than the places of one call
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := calm
			settings.ReplyTimeout, settings.PlacementTTL = 1500*time.Millisecond, time.Minute
			f := startFleet(t, 2, 1, settings).open(cfg)
			c := f.Client()
			for i, result := range c.DoMulti(t.Context(), newKeys(c, 2*tags)...) {
				if err := result.Error(); err != nil {
					t.Fatalf("command %d = %v, want it done", i, err)
				}
				if i%2 == 1 {
					if got, _ := result.ToString(); got != fmt.Sprint(i-1) {
						t.Fatalf("GET %d = %q, want what was set in front of it", i, got)
					}
				}
			}
		})
	}
}

// TestTimeGoesWithTheCommandBefore: TIME is sent to the member that serves the command in
// front of it.
func TestTimeGoesWithTheCommandBefore(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 1, calm)
	c := tf.open(Config{ReadReplicas: true}).Client()
	const n = 40
	cmds := make(rueidis.Commands, 0, 2*n)
	for i := range n {
		key := fmt.Sprintf("{%d}", i)
		if err := c.Do(t.Context(), c.B().Hset().Key(key).FieldValue().FieldValue("f", "x").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, c.B().Hget().Key(key).Field("f").Build(), c.B().Arbitrary("TIME").ReadOnly())
	}
	before := tf.asked()
	for i, result := range c.DoMulti(t.Context(), cmds...) {
		if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) { // a replica may not have it yet
			t.Fatalf("command %d = %v", i, err)
		}
	}
	served := 0
	for addr, counts := range tf.asked() {
		gets, times := counts["hget"]-before[addr]["hget"], counts["time"]-before[addr]["time"]
		if served += gets; times < gets { // upkeep asks, too
			t.Errorf("%s served %d HGET and %d TIME", addr, gets, times)
		}
	}
	if served != n {
		t.Errorf("members served %d HGET, want %d", served, n)
	}
	if err := c.DoMulti(t.Context(), c.B().Time().Build())[0].Error(); !errors.Is(err, ErrNoTag) {
		t.Errorf("TIME alone = %v, want ErrNoTag", err)
	}
}

// asked returns how often each member was asked for a command.
func (tf *testFleet) asked() map[string]map[string]int {
	all := map[string]map[string]int{}
	for i, master := range tf.masters {
		for _, server := range append(tf.copies[i], master) {
			counts := map[string]int{}
			for name, text := range server.Info("commandstats") {
				calls, _, _ := strings.Cut(strings.TrimPrefix(text, "calls="), ",")
				counts[strings.TrimPrefix(name, "cmdstat_")], _ = strconv.Atoi(calls)
			}
			all[server.Addr()] = counts
		}
	}
	return all
}
