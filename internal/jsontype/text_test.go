package jsontype_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/jsontype"
)

func toJSON(t rapid.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	if err := jsontype.Encode(&b, v); err != nil {
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
		if got := toJSON(t, jsontype.Text(test.text)); got != test.want {
			t.Errorf("text(%q) as JSON = %s, want %s", test.text, got, test.want)
		}
	}
}

// TestTextReturns passes a printed text back as an argument, as a program does that unquotes
// strings and hands objects on as they are.
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
		printed := toJSON(t, jsontype.Text(in))
		arg := printed
		if printed[0] == '"' {
			if err := json.Unmarshal([]byte(printed), &arg); err != nil {
				t.Fatal(err)
			}
		}
		for _, arg := range []string{arg, jsontype.Text(in).String()} {
			if in == "" && arg == `""` {
				continue // a table shows nothing as quotes
			}
			got, err := jsontype.ParseText(arg)
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
		if got := jsontype.Text(test.text).String(); got != test.want {
			t.Errorf("text(%q) in a table = %s, want %s", test.text, got, test.want)
		}
	}
}

func TestScoreKeepsEveryDigit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Float64().Draw(t, "score")
		var got float64
		if err := json.Unmarshal([]byte(toJSON(t, jsontype.Score(want))), &got); err != nil || got != want {
			t.Fatalf("score %v printed and read again = %v, %v", want, got, err)
		}
	})
}

func TestScoreInJSON(t *testing.T) {
	t.Parallel()
	for score, want := range map[jsontype.Score]string{
		1_700_000_000:                "1700000000",
		1_700_000_000.25:             "1700000000.25",
		-1e10:                        "-10000000000",
		1e300:                        "1e+300",
		jsontype.Score(math.Inf(1)):  `"inf"`,
		jsontype.Score(math.Inf(-1)): `"-inf"`,
	} {
		text := toJSON(t, score)
		if text != want {
			t.Errorf("score %v as JSON = %s, want %s", float64(score), text, want)
		}
		if got := score.String(); got != strings.Trim(want, `"`) {
			t.Errorf("score %v for people = %s, want %s without quotes", float64(score), got, want)
		}
		var again jsontype.Score
		if err := json.Unmarshal([]byte(text), &again); err != nil || again != score {
			t.Errorf("score %s read again = %v, %v", text, again, err)
		}
	}
	for _, text := range []string{`"1"`, `"now"`, `"NaN"`, `"+inf"`, "true", "{}", "1e999"} {
		var score jsontype.Score
		if err := json.Unmarshal([]byte(text), &score); err == nil {
			t.Errorf("%s is read as the score %v, want an error", text, score)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	var doc struct {
		For jsontype.Duration `json:"for"`
	}
	if err := json.Unmarshal([]byte(`{"for":"1m30s"}`), &doc); err != nil || doc.For.Duration != 90*time.Second {
		t.Errorf("1m30s is read as %v, %v", doc.For, err)
	}
	for _, text := range []string{`"soon"`, `""`, "90"} {
		if err := json.Unmarshal([]byte(`{"for":`+text+`}`), &doc); err == nil {
			t.Errorf("%s is read as %v, want an error", text, doc.For)
		}
	}
}

// FuzzText reads any argument as bytes. Each written form of these bytes must read as the
// same bytes.
func FuzzText(f *testing.F) {
	for _, arg := range []string{"plain", `{"base64":"/wA="}`, `{"base64":"?"}`, ` {"base64":""}`, `{"base64":"YQ==","x":1}`, "\xff\x00", ""} {
		f.Add(arg)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		text, err := jsontype.ParseText(arg)
		if err != nil {
			if got := millrace.Code(err); got != "bad_argument" {
				t.Errorf("ParseText(%q): %v with the code %q", arg, err, got)
			}
			return
		}
		written := toJSON(t, text)
		var again jsontype.Text
		if err := json.Unmarshal([]byte(written), &again); err != nil || again != text {
			t.Errorf("%q stands for %q, which is written as %s, which is read as %q, %v", arg, string(text), written, string(again), err)
		}
		if back, err := jsontype.ParseText(text.String()); text != "" && (err != nil || back != text) {
			t.Errorf("%q stands for %q, which people see as %s, which stands for %q, %v", arg, string(text), text, string(back), err)
		}
	})
}
