package directorytest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// beats: the last ones that were stored are there, beside the map.
func beats(t *testing.T, d *directory.Directory) {
	ctx := t.Context()
	change(t, d, 0, Sample(t, 1))
	if got, err := d.Beats(ctx); err != nil || len(got) > 0 {
		t.Errorf("Beats before any were stored = %v, %v, want none", got, err)
	}
	for _, want := range []directory.Beats{
		{0: members.Beat{Epoch: 1, Count: 7}},
		{0: members.Beat{Epoch: 1795782728059, Count: 8}, 12: members.Beat{Epoch: 3, Count: 1 << 40}},
	} {
		for range 2 {
			if err := d.KeepBeats(ctx, want); err != nil {
				t.Fatal(err)
			}
		}
		redistest.Eventually(t, "the beats are there", func() bool {
			got, err := d.Beats(ctx)
			return err == nil && cmp.Equal(want, got)
		})
	}
	m, err := d.Confirm(ctx, 1)
	wantMap(t, "Confirm after beats", m, err, nil)
}
