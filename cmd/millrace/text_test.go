package main

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"pgregory.net/rapid"
)

// fromArgument reads a text as the command line does.
func fromArgument(arg string) (text, error) {
	var t text
	err := t.Decode(&kong.DecodeContext{Scan: kong.ScanAsType(kong.PositionalArgumentToken, arg)})
	return t, err
}

func toJSON(t rapid.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b, v); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

func TestTextInJSON(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"", `""`},
		{"plain", `"plain"`},
		{"<a> & 'b'", `"<a> & 'b'"`},
		{"größer\n", `"größer\n"`},
		{"\xff\x00", `{"base64":"/wA="}`},
		{`{"base64":"YQ=="}`, `{"base64":"eyJiYXNlNjQiOiJZUT09In0="}`},
		{` {"base64": "x"}`, `{"base64":"IHsiYmFzZTY0IjogIngifQ=="}`},
		{`{"base64":1}`, `"{\"base64\":1}"`},
		{`{"base64":null}`, `"{\"base64\":null}"`},
		{`{"base64":"YQ==","a":""}`, `"{\"base64\":\"YQ==\",\"a\":\"\"}"`},
	}
	for _, test := range tests {
		if got := toJSON(t, text(test.text)); got != test.want {
			t.Errorf("text(%q) as JSON = %s, want %s", test.text, got, test.want)
		}
	}
}

// TestTextReturns feeds what was printed back as an argument, as a program does
// that unquotes strings and hands objects on as they are.
func TestTextReturns(t *testing.T) {
	t.Parallel()
	nasty := rapid.SampledFrom([]string{
		`{"base64":"YQ=="}`, `{"base64":"?"}`, "{\"base64\": \"\"}\n", `{"BASE64":"YQ=="}`, `{"base64":"a","base64":"b"}`,
		"{\"base64\":\"\xff\"}", "[]", "{", "\u2028", "\ufffd",
	})
	rapid.Check(t, func(t *rapid.T) {
		var in string
		if rapid.Bool().Draw(t, "nasty") {
			in = nasty.Draw(t, "text")
		} else {
			in = string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		}
		printed := toJSON(t, text(in))
		arg := printed
		if printed[0] == '"' {
			if err := json.Unmarshal([]byte(printed), &arg); err != nil {
				t.Fatal(err)
			}
		}
		for _, arg := range []string{arg, text(in).String()} {
			if in == "" && arg == `""` {
				continue // a table shows nothing as quotes
			}
			got, err := fromArgument(arg)
			if err != nil || string(got) != in {
				t.Fatalf("%q printed as %s and read again = %q, %v", in, arg, got, err)
			}
		}
	})
}

func TestTextInTables(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"plain words", "plain words"},
		{"", `""`},
		{"a\tb", `{"base64":"YQli"}`},
		{"\x1b[31m", `{"base64":"G1szMW0="}`},
		{"\xff", `{"base64":"/w=="}`},
	}
	for _, test := range tests {
		if got := text(test.text).String(); got != test.want {
			t.Errorf("text(%q) in a table = %s, want %s", test.text, got, test.want)
		}
	}
}

func TestScoreKeepsEveryDigit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Float64().Draw(t, "score")
		var got float64
		if err := json.Unmarshal([]byte(toJSON(t, score(want))), &got); err != nil || got != want {
			t.Fatalf("score %v printed and read again = %v, %v", want, got, err)
		}
	})
}

func TestScoreAndAge(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_250_000)
	tests := []struct {
		score          score
		inJSON, inText string
		age            string
	}{
		{1_700_000_000, "1700000000", "1700000000", "250ms"},
		{1_700_000_000.25, "1700000000.25", "1700000000.25", "0s"},
		{1_699_999_808, "1699999808", "1699999808", "3m12s"},
		{1_699_990_000.25, "1699990000.25", "1699990000.25", "2h46m40s"},
		{1_699_800_000, "1699800000", "1699800000", "2d8h"},
		{1_700_000_060.25, "1700000060.25", "1700000060.25", "in 1m0s"},
		{-1e10, "-10000000000", "-10000000000", "-"},
		{1e300, "1e+300", "1e+300", "-"},
		{score(math.Inf(1)), `"inf"`, "inf", "-"},
		{score(math.Inf(-1)), `"-inf"`, "-inf", "-"},
	}
	for _, test := range tests {
		if got := toJSON(t, test.score); got != test.inJSON {
			t.Errorf("score %v as JSON = %s, want %s", float64(test.score), got, test.inJSON)
		}
		if got := test.score.String(); got != test.inText {
			t.Errorf("score %v in a table = %s, want %s", float64(test.score), got, test.inText)
		}
		if got := test.score.age(now); got != test.age {
			t.Errorf("age of %v = %s, want %s", float64(test.score), got, test.age)
		}
	}
}
