package finding

import (
	"encoding/json"
	"testing"
)

// TestSeverity: each severity is a word in JSON, and worse ones are larger.
func TestSeverity(t *testing.T) {
	t.Parallel()
	const want = `{"severity":"critical","code":"full","text":"is full"}`
	text, err := json.Marshal(Finding{Severity: Critical, Code: "full", Text: "is full"})
	if string(text) != want || err != nil {
		t.Errorf("a finding is %s, %v, want %s", text, err, want)
	}
	last := OK - 1
	for _, word := range []string{"ok", "note", "warning", "critical"} {
		var s Severity
		if err := s.UnmarshalText([]byte(word)); err != nil || s.String() != word || s <= last {
			t.Errorf("%q is %d, %v after %d", word, s, err, last)
		}
		last = s
	}
	var s Severity
	if err := json.Unmarshal([]byte(`"fail"`), &s); err == nil || err.Error() != `"fail" is no severity: use ok, note, warning, critical` {
		t.Errorf("an unknown word: %v", err)
	}
}

func TestNearlyFull(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		used, limit  int64
		member, want bool
	}{
		{79, 100, false, false}, {80, 100, false, true}, {200, 100, false, true}, {80, 0, false, false},
		{89, 100, true, false}, {90, 100, true, true},
	} {
		if got := NearlyFull(c.used, c.limit, c.member); got != c.want {
			t.Errorf("NearlyFull(%d, %d, %t) = %t, want %t", c.used, c.limit, c.member, got, c.want)
		}
	}
}
