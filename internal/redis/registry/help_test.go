package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
}

func must(t *testing.T, client rueidis.Client, words ...string) rueidis.RedisMessage {
	t.Helper()
	m, err := client.Do(t.Context(), client.B().Arbitrary(words[0]).Keys(words[1:min(2, len(words))]...).Args(words[min(2, len(words)):]...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%v: %v", words, err)
	}
	return m
}

// registered returns the entries: fields and their values.
func registered(t *testing.T, client rueidis.Client) map[string]string {
	t.Helper()
	all := map[string]string{}
	for shard := range parts {
		some, err := client.Do(t.Context(), client.B().Hgetall().Key(key(shard)).Build()).AsStrMap()
		if err != nil {
			t.Fatal(err)
		}
		for f, v := range some {
			if shardOf(f, parts) != shard {
				t.Errorf("%q is in shard %d, want %d", f, shard, shardOf(f, parts))
			}
			all[f] = v
		}
	}
	return all
}

// create makes structures of a kind, and enters them as of that time.
func create(t *testing.T, client rueidis.Client, kind Kind, at time.Time, names ...string) {
	t.Helper()
	var cmds rueidis.Commands
	for _, name := range names {
		f := field(kind, name)
		cmds = append(cmds, client.B().Hset().Key(kind.keys(name)[0]).FieldValue().FieldValue("version", "1").Build(),
			client.B().Hset().Key(key(shardOf(f, parts))).FieldValue().FieldValue(f, strconv.FormatInt(at.UnixMilli(), 10)).Build())
	}
	for _, result := range client.DoMulti(t.Context(), cmds...) {
		if err := result.Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// numbered returns n names.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	return names
}

// listed returns the names that a list yields, sorted, and its error.
func listed(ctx context.Context, client rueidis.Client, kind Kind) (names []string, err error) {
	for name, failed := range List(ctx, client, kind, nil) {
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, err
}

// visits counts the visits by name.
type visits struct {
	mu sync.Mutex
	of map[string]int
	in []string // in their order
}

func (v *visits) add(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil {
		v.of = map[string]int{}
	}
	v.of[name]++
	v.in = append(v.in, name)
}

// slice runs a slice of the 25 ms that a recruiter gives it, and returns how many names
// have been visited by then.
func (v *visits) slice(t *testing.T, visitor *Visitor) int {
	t.Helper()
	ctx, cancel := script.Within(t.Context(), 25*time.Millisecond)
	defer cancel()
	_, _ = visitor.Slice(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.of)
}

// own returns a server of the test's own.
func own(t testing.TB) *redistest.Server {
	t.Helper()
	return redistest.Start(t, redistest.Options{})
}
