package directory_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/directory/directorytest"
	"github.com/millrace/millrace/internal/redistest"
)

// TestContract runs on a server for each test: the key of a map is always the same.
func TestContract(t *testing.T) {
	t.Parallel()
	directorytest.Run(t, func(t *testing.T) directory.Directory {
		option, err := rueidis.ParseURL(redistest.Start(t, redistest.Options{}).URL())
		if err != nil {
			t.Fatal(err)
		}
		d, err := directory.Dial(option)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		return d
	})
}
