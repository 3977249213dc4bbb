package server_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/server"
)

func TestParseAuth(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"bearer 0123456789abcdef",
		"# comment\n\n  Bearer 0123456789abcdef  \nbasic ops:a password with spaces\n",
		"basic ops:colons:are:fine:here",
		"viewer bearer 0123456789abcdef\nworker acme-* bearer fedcba9876543210\nb-* operator  basic ops:a password with spaces",
	} {
		if _, err := server.ParseAuth(text); err != nil {
			t.Errorf("ParseAuth(%q): %v", text, err)
		}
	}
	for text, line := range map[string]string{
		"":                                      "no client",
		"# nobody":                              "no client",
		"bearer":                                "line 1",
		"bearer short":                          "line 1",
		"bearer 0123456789abcdef with":          "line 1",
		"bearer 0123456789abcdef\nbasic u":      "line 2",
		"basic :0123456789abcdef":               "line 1",
		"basic ops:short":                       "line 1",
		"0123456789abcdef":                      "line 1",
		"digest 0123456789abcdef":               "line 1",
		"admin bearer 0123456789abcdef":         "line 1",
		"viewer viewer bearer 0123456789abcdef": "line 1",
		"* bearer 0123456789abcdef":             "line 1",
		"worker acme-*":                         "line 1",
	} {
		_, err := server.ParseAuth(text)
		if millrace.Code(err) != "bad_auth" || !strings.Contains(err.Error(), line) {
			t.Errorf("ParseAuth(%q) = %v, want bad_auth with %q", text, err, line)
		}
		if err != nil && (strings.Contains(err.Error(), "0123456789") || strings.Contains(err.Error(), "short")) {
			t.Errorf("ParseAuth(%q) = %v, which tells a secret", text, err)
		}
	}
}
