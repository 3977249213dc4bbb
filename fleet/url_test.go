package fleet

import (
	"strings"
	"testing"

	"github.com/millrace/millrace"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	option, err := ParseURL("fleet://user:pass@127.0.0.1:7000")
	if err != nil || len(option.InitAddress) != 1 || option.Username != "user" || option.Password != "pass" || option.TLSConfig != nil {
		t.Errorf("ParseURL = %+v, %v", option, err)
	}
	if option, err := ParseURL("fleets://127.0.0.1:7000"); err != nil || option.TLSConfig == nil {
		t.Errorf("ParseURL of fleets = %+v, %v, want TLS", option, err)
	}
	for _, text := range []string{"", "redis://127.0.0.1:1", "fleet://", "fleet:///x", "fleet://u:secret@host:port:x", "fleet://127.0.0.1:7000?db=secret"} {
		_, err := ParseURL(text)
		wantError(t, err, millrace.ErrBadArgument)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseURL(%q) shows the secret: %v", text, err)
		}
	}
	for _, text := range []string{"fleet://127.0.0.1:7000?addr=127.0.0.1:7001", "fleet://127.0.0.1:7000?master_set=main"} {
		_, err := ParseURL(text)
		wantError(t, err, millrace.ErrBadArgument)
		if !strings.Contains(millrace.Hint(err), "etcd://") {
			t.Errorf("ParseURL(%q): the hint is %q, want the directory of several servers", text, millrace.Hint(err))
		}
	}
	if _, err := ParseURL("etcd://h/f"); !strings.Contains(millrace.Hint(err), "fleet/etcd") {
		t.Errorf("the hint for etcd is %q, want the package that opens it", millrace.Hint(err))
	}
	_, err = Dial(t.Context(), "fleet://127.0.0.1:1", Config{})
	if err == nil || millrace.Code(err) == "" {
		t.Errorf("Dial of nobody = %v, want an error with a code", err)
	}
}
