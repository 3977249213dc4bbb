package grow

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestInitVerifiesTheDirectory before it changes anything, also if the fleet's servers would
// be refused, too.
func TestInitVerifiesTheDirectory(t *testing.T) {
	t.Parallel()
	tf := &testFleet{t: t, dirs: redistest.Start(t, redistest.Options{TCP: true})} // without an append-only file
	tf.dir = tf.dial(tf.dirs.Addr())
	server := redistest.Start(t, redistest.Options{TCP: true})
	_, err := Init(t.Context(), tf.dir, []Partition{{Master: directory.Member{Addr: server.Addr()}}}, onTrust)
	if !errors.Is(err, directory.ErrUnfit) || !strings.Contains(millrace.Hint(err), "--appendonly yes --appendfsync always") {
		t.Errorf("Init = %v, hint %q, want %v, and how to start the directory", err, millrace.Hint(err), directory.ErrUnfit)
	}
	for name, s := range map[string]*redistest.Server{"directory": tf.dirs, "server": server} {
		c := s.Client(t)
		if n, err := c.Do(t.Context(), c.B().Dbsize().Build()).AsInt64(); n != 0 || err != nil {
			t.Errorf("the %s has %d keys, %v, want none", name, n, err)
		}
	}
}
