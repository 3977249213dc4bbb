package parts

import (
	"testing"

	"github.com/millrace/millrace/fairqueue"
)

// TestFailing: a tenant that fails in two parts is one, with its failures in both.
func TestFailing(t *testing.T) {
	t.Parallel()
	q := onShared(t, 2)
	write(t, q, many(10, "a")...)
	write(t, q, many(3, "b")...)
	for i, part := range q.Parts() {
		messages, err := part.Read(t.Context(), fairqueue.ReadConfig{Max: 20})
		if err != nil {
			t.Fatalf("part %d has no message: %v", i, err)
		}
		for _, m := range messages {
			cfg := fairqueue.NackConfig{Dead: m.Tenant == "b", Reason: []string{"first", "last"}[i]}
			if _, err := part.Nack(t.Context(), cfg, m.Receipt); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := q.Stats(t.Context())
	if err != nil || len(s.Failing) != 2 {
		t.Fatalf("%+v: %v", s.Failing, err)
	}
	a, b := s.Failing[0], s.Failing[1]
	if a.Tenant != "a" || a.Count != 10 || a.Died != 0 || b.Tenant != "b" || b.Count != 3 || b.Died != 3 {
		t.Errorf("failing: %+v", s.Failing)
	}
	if one, other := s.Parts[0].Failing, s.Parts[1].Failing; a.Reason != "last" || a.Newest.Before(one[0].Newest) || a.Oldest.After(other[0].Oldest) || a.Oldest.After(one[0].Oldest) {
		t.Errorf("of parts: %+v and %+v, together %+v", one, other, a)
	}
}
