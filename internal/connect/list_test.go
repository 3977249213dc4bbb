package connect

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace/millrace/dial"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	options, shown, err := Options("redis://u:a,b@h:1,rediss://h:2/3,unix:///tmp/s")
	if err != nil || len(options) != 3 {
		t.Fatalf("Options = %d, %v, want three", len(options), err)
	}
	if got, want := options[0].Password, "a,b"; got != want {
		t.Errorf("the first password is %q, want %q", got, want)
	}
	if options[1].TLSConfig == nil || options[1].SelectDB != 3 {
		t.Errorf("the second = %+v, want TLS and database 3", options[1])
	}
	if got, want := strings.Join(shown, " "), "redis://u:xxxxx@h:1 rediss://h:2/3 unix:///tmp/s"; got != want {
		t.Errorf("shown as %q, want %q", got, want)
	}
	for _, wrong := range []string{"", "redis://h:1,", "redis://h:1,h:2", "redis://h:1,fleet://h:2"} {
		if _, _, err := Options(wrong); !errors.Is(err, dial.ErrURL) {
			t.Errorf("Options(%q) = %v, want dial.ErrURL", wrong, err)
		}
	}
}
