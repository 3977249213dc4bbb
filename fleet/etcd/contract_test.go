package etcd

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/directorytest"
	"github.com/millrace/millrace/internal/test/etcdtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestContract runs on one cluster, with a fleet for each test.
func TestContract(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	var fleets atomic.Int32
	directorytest.Run(t, func(t *testing.T) *directory.Directory {
		return dial(t, cluster.URL("fleet-"+strconv.Itoa(int(fleets.Add(1)))))
	})
}

// dial returns the directory of a URL, which ends with the test.
func dial(t *testing.T, url string) *directory.Directory {
	t.Helper()
	return directory.New(dialStore(t, url))
}

// dialStore returns its store.
func dialStore(t *testing.T, url string) *store {
	t.Helper()
	a, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	s := open(a)
	t.Cleanup(s.Close)
	return s
}
