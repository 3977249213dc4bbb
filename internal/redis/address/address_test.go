package address

import "testing"

func TestRedacted(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://u:secret@h:1":             "redis://u:xxxxx@h:1",
		"unix:///tmp/s?db=1":               "unix:///tmp/s?db=1",
		"redis://:secret#1@h:6379":         Hidden,
		"redis://:123/secret@h:6379":       Hidden,
		"redis://u:secret@h:1,redis://h:2": Hidden,
		"":                                 Hidden,
	} {
		if got := Redacted(url); got != want {
			t.Errorf("Redacted(%q) = %q, want %q", url, got, want)
		}
	}
}
