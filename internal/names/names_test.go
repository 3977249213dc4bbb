package names_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	base := &millrace.Error{Code: "bad_name"}
	for name, want := range map[string]string{
		"":                       "the name of a thing is empty",
		"a":                      "",
		"ä/:b c":                 "",
		strings.Repeat("n", 512): "",
		strings.Repeat("n", 513): "the name of a thing is 513 bytes long, more than 512",
		"a\nb":                   `the name of a thing has a control character: "a\nb"`,
		"a\x7f":                  `the name of a thing has a control character: "a\x7f"`,
		"a{":                     `the name of a thing has a brace: "a{"`,
		"}":                      `the name of a thing has a brace: "}"`,
		"mr:x":                   `the name of a thing begins with mr:, as all of Millrace's own keys do: "mr:x"`,
		"mr/x":                   "",
		"a/ick/{a}/pset":         `the name of a thing contains /ick/{, as the keys of an Ick do: "a/ick/{a}/pset"`,
	} {
		err := names.Check(base, "name of a thing", name, 512)
		if want == "" && err == nil {
			continue
		}
		if err == nil || err.Error() != want || !errors.Is(err, base) {
			t.Errorf("Check(%.20q) = %v, want %q", name, err, want)
		}
	}
	if err := names.CheckText(base, "name of a thing", "a{b}", 512); err != nil {
		t.Errorf("CheckText refuses braces: %v", err)
	}
}
