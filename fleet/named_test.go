package fleet

import (
	"errors"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestRefusalsAreNamed: no raw READONLY, NOREPLICAS, MASTERDOWN or OOM reaches a program, and a read that one member refuses is
// answered by another one.
func TestRefusalsAreNamed(t *testing.T) {
	t.Parallel()
	config := func(name, value string) []string { return []string{"CONFIG", "SET", name, value} }
	nowhere := []string{"REPLICAOF", "127.0.0.1", "1"}
	for _, c := range []struct {
		code        string
		write, read error
		on          [][]string // the master
		copy        [][]string // the replica
	}{
		{"READONLY", ErrReadOnly, nil, [][]string{nowhere}, nil},
		{"NOREPLICAS", ErrReadOnly, nil, [][]string{config("min-replicas-to-write", "2")}, nil},
		{"MASTERDOWN", ErrReadOnly, nil, [][]string{nowhere, config("replica-serve-stale-data", "no")}, nil},
		{"MASTERDOWN", ErrReadOnly, ErrUnavailable, [][]string{nowhere, config("replica-serve-stale-data", "no")}, [][]string{nowhere, config("replica-serve-stale-data", "no")}},
		{"OOM", millrace.ErrFull, nil, [][]string{config("maxmemory", "1")}, nil},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			tf := startFleet(t, 1, 1, calm)
			f := tf.open(Config{})
			must(t, f.Client().Do(t.Context(), f.Client().B().Set().Key("{a}").Value("x").Build()).Error())
			redistest.Eventually(t, "the replica has it", func() bool {
				r := tf.copies[0][0].Client(t)
				return r.Do(t.Context(), r.B().Exists().Key("{a}").Build()).Error() == nil && llen(t, tf.copies[0][0], "{a}l") == 0
			})
			for server, commands := range map[*redistest.Server][][]string{tf.masters[0]: c.on, tf.copies[0][0]: c.copy} {
				for _, words := range commands {
					r := server.Client(t)
					must(t, r.Do(t.Context(), r.B().Arbitrary(words...).Build()).Error())
				}
			}
			eachDoer(t, f, func(t *testing.T, d doer) {
				for _, err := range []error{
					d.Do(t.Context(), d.B().Set().Key("{a}").Value("y").Build()).Error(),
					d.DoMulti(t.Context(), d.B().Set().Key("{a}").Value("y").Build())[0].Error(),
					d.Do(t.Context(), d.B().Eval().Script("return redis.call('SET', KEYS[1], 'y')").Numkeys(1).Key("{a}").Build()).Error(),
				} {
					refused := retry.Code(err, c.code) || c.code == "MASTERDOWN" && retry.Code(err, "READONLY") // of a SET
					if !errors.Is(err, c.write) || !refused || millrace.Code(err) == "" {
						t.Errorf("a write = %v (%s), want %v with %s inside", err, millrace.Code(err), c.write, c.code)
					}
				}
			})
			got, err := f.Client().Do(t.Context(), f.Client().B().Get().Key("{a}").Build()).ToString()
			if c.read == nil && (got != "x" || err != nil) || c.read != nil && (!errors.Is(err, c.read) || !retry.Code(err, c.code)) {
				t.Errorf("a read = %q, %v, want x or %v with %s inside", got, err, c.read, c.code)
			}
			if _, raw := rueidis.IsRedisErr(err); raw {
				t.Errorf("a read = %v, the server's own error", err)
			}
		})
	}
}
