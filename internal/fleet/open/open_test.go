package open

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
)

func TestServers(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"fleet://h:7000":                       "h:7000",
		"fleets://user:a@b@h:7000/?x=y":        "h:7000",
		"etcd://u:p@h:2379,i:2379/shop?ca=a@b": "h:2379, i:2379",
	} {
		if got := Servers(url); !Is(url) || got != want {
			t.Errorf("Servers(%q) = %q, and it is that of a fleet: %t; want %q", url, got, Is(url), want)
		}
	}
	if Is("redis://h:6379") || Is("fleet:h") {
		t.Error("the URL of one Redis is taken for that of a fleet")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"fleet://127.0.0.1:1", "etcd://127.0.0.1:1,127.0.0.1:2/shop"} {
		if err := Check(url); err != nil {
			t.Errorf("Check(%q) = %v, and it asks no server", url, err)
		}
	}
	for _, url := range []string{"fleet://", "fleets://u:secret@h:notaport", "etcd://u:secret@h/a/b", "etcds://u:secret@h?ca=/nowhere"} {
		err := Check(url)
		if !errors.Is(err, dial.ErrURL) || millrace.Hint(err) == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("Check(%q) = %v, want ErrURL with a hint and no password", url, err)
		}
	}
}
