package conformance

import (
	"errors"
	"sync"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestRefusalsAreNamed: no raw READONLY, NOREPLICAS, MASTERDOWN or OOM of a bare server reaches a program. Each is an error of the
// library, and the server's is inside.
func TestRefusalsAreNamed(t *testing.T) {
	t.Parallel()
	nowhere := []string{"REPLICAOF", "127.0.0.1", "1"}
	for _, c := range []struct {
		code   string
		want   *millrace.Error
		reads  bool // whether the server answers reads
		before [][]string
	}{
		{"READONLY", millrace.ErrUnavailable, true, [][]string{nowhere}},
		{"NOREPLICAS", millrace.ErrUnavailable, true, [][]string{{"CONFIG", "SET", "min-replicas-to-write", "2"}}},
		{"MASTERDOWN", millrace.ErrUnavailable, false, [][]string{nowhere, {"CONFIG", "SET", "replica-serve-stale-data", "no"}}},
		{"OOM", millrace.ErrFull, true, [][]string{{"CONFIG", "SET", "maxmemory", "1"}}},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			opened := map[string]pair{}
			for name, open := range pairs {
				opened[name] = open(t, server.Client(t))
			}
			control := server.Client(t)
			for _, command := range c.before {
				must(t, command[0], control.Do(t.Context(), control.B().Arbitrary(command...).Build()).Error())
			}
			var calls sync.WaitGroup
			defer calls.Wait()
			for name, p := range opened {
				calls.Go(func() {
					if err := p.write(t.Context()); !errors.Is(err, c.want) || !retry.Code(err, c.code) {
						t.Errorf("a write of %s = %v, want %v with %s inside", name, err, c.want, c.code)
					}
				})
				calls.Go(func() {
					err := p.read(t.Context())
					if refused := errors.Is(err, c.want) && retry.Code(err, c.code); refused == c.reads || c.reads && retry.Word(err) != "" {
						t.Errorf("a read of %s = %v, want an answer: %v", name, err, c.reads)
					}
				})
			}
		})
	}
}
