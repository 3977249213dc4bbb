package fairqueue

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// itemForm is the form that docs/WIRE.md gives of a delivered message.
var itemForm = regexp.MustCompile(`(?s)^(\d{16}[A-Za-z0-9_-]{8})(?:(\d+);(\d+);([^\x01]*)\x01)?((\d*)(?:\*(\d+))?:(\d)(#\d+)?(=[^\x01]*)\x01[^\x01]*\x01.*)$`)

// TestItemsAreReadByTheirForm compares the parsed item with its form.
func TestItemsAreReadByTheirForm(t *testing.T) {
	t.Parallel()
	read := 0
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for range rapid.IntRange(0, 12).Draw(t, "parts") {
			text += rapid.SampledFrom([]string{"0", "7", "12", ";", "*", ":", "#", "=", "a", "\x01", "\n", "1;2;why\x01", ":3=t\x01\x01", "*5:2#1=t\x01id\x01"}).Draw(t, "part")
		}
		if rapid.Bool().Draw(t, "whole") {
			text = ":3=t\x01\x01" + text
		}
		handle := "0000000000000001ABCDEF-_"
		r, m, err := delivered(handle+text, time.UnixMilli(9))
		parts := itemForm.FindStringSubmatch(handle + text)
		if bad := err != nil && strings.Contains(err.Error(), "no header"); bad != (parts == nil) { // the body may be bad, too
			t.Fatalf("%q: error %v, want one of its header: %t", text, err, parts == nil)
		}
		if parts == nil {
			return
		}
		read++
		attempts, _ := strconv.Atoi(parts[2])
		cost, priority := 1, 4-int(parts[8][0]-'0')
		if parts[7] != "" {
			cost, _ = strconv.Atoi(parts[7])
		}
		stream := -1
		if parts[9] != "" {
			stream, _ = strconv.Atoi(parts[9][1:])
		}
		tenant, _ := readFlow(parts[10])
		want := []any{receipt(parts[1] + parts[10]), attempts + 1, parts[4], milliTime(parts[6]), cost, priority, stream, tenant}
		if diff := cmp.Diff(want, []any{r, m.Attempt, m.Reason, m.Deadline, m.Cost, m.Priority, m.Stream, m.Tenant}); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", text, diff)
		}
	})
	if read == 0 {
		t.Error("no item was read")
	}
}
