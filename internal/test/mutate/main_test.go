package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEarly: an early return is found in each of its forms, and nothing else.
func TestEarly(t *testing.T) {
	t.Parallel()
	const source = `
if a then
  return redis.error_reply('A')
elseif b
  or c then
  return 0
end
if d then return 1 end
if e then
  redis.call('DEL', K)
  return 2
end
return 3
`
	var conditions []string
	for _, m := range early.FindAllStringSubmatch(source, -1) {
		conditions = append(conditions, strings.Join(strings.Fields(m[2]), " "))
	}
	if diff := cmp.Diff([]string{"a", "b or c", "d"}, conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// TestPlace: package script still has the place that the overlay changes.
func TestPlace(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../redis/script/library.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), assemble); n != 1 {
		t.Errorf("package script has %d places where it assembles a loaded library, want 1", n)
	}
}
