package script_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/redis/script"
)

func TestChunks(t *testing.T) {
	t.Parallel()
	half, whole := strings.Repeat("h", script.MaxBytes/2), strings.Repeat("w", script.MaxBytes+1)
	for _, tt := range []struct {
		name  string
		items []string
		most  int
		want  []int // how many are in each part
	}{
		{"none", nil, 3, nil},
		{"by count", []string{"a", "b", "c", "d"}, 3, []int{3, 1}},
		{"by size", []string{half, half, "c", half}, 9, []int{2, 2}},
		{"one that is too large", []string{"a", whole, "b"}, 9, []int{1, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var sizes []int
			var all []string
			for part := range script.Chunks(tt.items, tt.most, func(s string) int { return len(s) }) {
				sizes, all = append(sizes, len(part)), append(all, part...)
			}
			if diff := cmp.Diff(tt.want, sizes); diff != "" || !cmp.Equal(tt.items, all) {
				t.Errorf("parts (-want +got):\n%s and the same items: %v", diff, cmp.Equal(tt.items, all))
			}
		})
	}
}
