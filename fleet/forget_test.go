package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/ring"
)

func positionOf(tag string) uint64 { return ring.Position(tag) }

func tagsCounted(t *testing.T, f *Fleet) (n int64) {
	t.Helper()
	status, err := f.Status(t.Context())
	must(t, err)
	for _, p := range status.Partitions {
		n += p.Tags
	}
	return n
}

// TestForget frees the places of tags without keys, and no others.
func TestForget(t *testing.T) {
	t.Parallel()
	settings := quick
	settings.MaxTags = 8
	tf := startFleet(t, 2, 0, settings)
	f, other, ctx := tf.open(Config{}), tf.open(Config{}), t.Context()
	c := f.Client()
	var tags []string
	for i := range 16 { // some of which are sent on
		tags = append(tags, fmt.Sprint(i))
		must(t, put(ctx, c, fmt.Sprintf("{%d}", i), "x"))
	}
	for i := range 10 {
		must(t, c.Do(ctx, c.B().Del().Key(fmt.Sprintf("{%d}", i)).Build()).Error())
	}
	used, err := other.Forget(ctx, append(tags, "never there")...)
	if !errors.Is(err, ErrInUse) || !slices.Equal(used, []string{"10", "11", "12", "13", "14", "15"}) || !strings.HasSuffix(err.Error(), "and 1 more") {
		t.Errorf("Forget = %q, %v, want the six that have keys to be in use", used, err)
	}
	if got := tagsCounted(t, f); got != 6 {
		t.Errorf("%d tags are counted, want 6", got)
	}
	for i := range 16 {
		l, err := other.Locate(ctx, fmt.Sprint(i))
		must(t, err)
		if (l.How == Nowhere) != (i < 10) {
			t.Errorf("Locate(%d) = %+v", i, l)
		}
		must(t, put(ctx, c, fmt.Sprintf("{%d}", i), "y"))
	}
	tf.wantOneHome()
	_, err = f.Forget(ctx)
	must(t, err)
}

// TestForgottenWhileInUse: another client remembers where the tag is, and writes.
// Partitions were added, so that the tag would get another home.
func TestForgottenWhileInUse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		homes int
	}{
		{"with a life of placements", 1},
		{"without", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tf := startFleet(t, 1, 0, quick)
			f, user, ctx := tf.open(Config{}), tf.open(Config{}), t.Context()
			m, err := grow.Add(ctx, tf.dir, tf.servers(1, 0), tf.growing(tf.dir))
			must(t, err)
			tag := tagOwnedBy(t, m, 1)
			// It was placed before, on the old partition.
			_, home, err := user.view.Load().partitions[0].placed(ctx, "place", tag, fmt.Sprint(m.Epoch), "0", "80", "0")
			if err != nil || home != 0 {
				t.Fatalf("place = %d, %v", home, err)
			}
			redistest.Eventually(t, "the clients have the map", func() bool { return f.view.Load().m.Epoch >= m.Epoch && user.view.Load().m.Epoch >= m.Epoch })
			must(t, put(ctx, user.Client(), "{"+tag+"}", "x"))
			c := user.Client()
			must(t, c.Do(ctx, c.B().Del().Key("{"+tag+"}").Build()).Error())
			if tc.homes == 2 {
				user.places.get(tag).until = 1 << 62 // it never asks again
			}
			_, err = f.Forget(ctx, tag)
			must(t, err)
			must(t, put(ctx, user.Client(), "{"+tag+"}user", "x"))
			must(t, put(ctx, tf.open(Config{}).Client(), "{"+tag+"}", "x"))
			if homes := tf.homes()[tag]; len(homes) != tc.homes {
				t.Errorf("the tag has the homes %v, want %d", homes, tc.homes)
			}
		})
	}
}

// TestForgetGivesWay to a client that writes for the tag meanwhile.
func TestForgetGivesWay(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	f, user, ctx := tf.open(Config{}), tf.open(Config{}), t.Context()
	c := user.Client()
	must(t, put(ctx, c, "{a}", "x"))
	must(t, c.Do(ctx, c.B().Del().Key("{a}").Build()).Error())
	token := "T"
	l, err := f.mark(ctx, "a", token)
	must(t, err)
	// Its place is known for a while, and then found to be marked.
	redistest.Eventually(t, "the mark is taken off", func() bool {
		must(t, c.Do(ctx, c.B().Del().Key("{a}").Build()).Error())
		r, _, _, err := f.view.Load().partitions[0].lookUp(ctx, "a")
		must(t, err)
		return r.Mark == members.Unmarked
	})
	kept, err := f.unplace(ctx, "a", l, token)
	if err != nil || !kept {
		t.Errorf("unplace = %v, %v, want the tag kept", kept, err)
	}
	// A read does not take it off, and does not hide it from a write.
	_, err = f.mark(ctx, "a", token)
	must(t, err)
	fresh := tf.open(Config{})
	if _, err := get(ctx, fresh.Client(), "{a}"); err != nil {
		t.Error(err)
	}
	must(t, put(ctx, fresh.Client(), "{a}", "x"))
	if r, _, _, err := f.view.Load().partitions[0].lookUp(ctx, "a"); err != nil || r.Mark != members.Unmarked {
		t.Errorf("the record after a write is %+v, %v, want no mark", r, err)
	}
}
