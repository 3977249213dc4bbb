package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// newKeys are commands that set keys of tags that nobody has used, and read some back.
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
		"forgotten":  {Placements: 10}, // the cache cannot hold what one call finds
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := calm
			settings.ReplyLimit, settings.PlacementLife = 1500*time.Millisecond, time.Minute
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
