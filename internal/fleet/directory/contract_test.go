package directory_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/directorytest"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestContractOfMemory holds the store of tests to the same.
func TestContractOfMemory(t *testing.T) {
	t.Parallel()
	directorytest.Run(t, func(*testing.T) *directory.Directory { return directory.New(new(directorytest.Memory)) })
}

// TestContract runs on a server for each test: the key of a map is always the same.
func TestContract(t *testing.T) {
	t.Parallel()
	directorytest.Run(t, func(t *testing.T) *directory.Directory {
		d, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{redistest.Durable(t).Addr()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		return d
	})
}
