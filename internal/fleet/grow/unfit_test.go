package grow

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redistest"
)

// unfit is a directory whose servers do not keep its promises.
type unfit struct{ directory.Directory }

var errUnfit = errors.New("etcd is too old")

func (unfit) Verify(context.Context) error { return errUnfit }

// TestInitVerifiesTheDirectory before it changes anything, also if the fleet's servers would
// be refused, too.
func TestInitVerifiesTheDirectory(t *testing.T) {
	t.Parallel()
	tf := &testFleet{t: t, dirs: redistest.Start(t, redistest.Options{TCP: true})}
	tf.dir = tf.dial(tf.dirs.Addr())
	server := redistest.Start(t, redistest.Options{TCP: true})
	_, err := Init(t.Context(), unfit{tf.dir}, []Partition{{Master: directory.Member{Addr: server.Addr()}}}, onTrust)
	if !errors.Is(err, errUnfit) {
		t.Errorf("Init = %v, want %v", err, errUnfit)
	}
	for name, s := range map[string]*redistest.Server{"directory": tf.dirs, "server": server} {
		c := s.Client(t)
		if n, err := c.Do(t.Context(), c.B().Dbsize().Build()).AsInt64(); n != 0 || err != nil {
			t.Errorf("the %s has %d keys, %v, want none", name, n, err)
		}
	}
}
