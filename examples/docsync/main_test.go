package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace/millrace/internal/redistest"
)

// TestMain is the indexer in the processes that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == indexerCommand {
		os.Exit(indexerMain(os.Args[2:]))
	}
	// Bleve's analysis workers live as long as the program.
	redistest.Main(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

// folder makes a folder with files of many kinds: 64 texts, and two that are
// none.
func folder(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"empty.txt":                       "",
		"twin.txt":                        "the same\ncontent\n",
		"also a twin.txt":                 "the same\ncontent\n",
		"a folder/with spaces/and ünï.md": "naïve café\n",
		"latin1.txt":                      "na\xefve caf\xe9\n",
		"caf\xe9 \xff.txt":                "a name that is not UTF-8\n",
		"'quoted' \"name\"; --.sql":       "DROP TABLE documents;\n",
		"long.txt":                        strings.Repeat("x", 100_000) + "\n",
		"program.bin":                     "\x7fELF\x00\x01",
		"huge.txt":                        strings.Repeat("large ", maxFile/6+1),
	}
	for i := range 56 {
		files[fmt.Sprintf("more/%02d.txt", i)] = strings.Repeat(fmt.Sprintf("line of file %d\n", i), i)
	}
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestIndexAndDatabaseAgreeAfterKills(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	j := job{source: folder(t), redis: server.URL(), edits: 400, pause: 5 * time.Millisecond, kills: 5}

	var out bytes.Buffer
	code, err := docsync(t.Context(), j, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := code, exitOK; got != want {
		t.Errorf("exit code = %d, want %d", got, want)
	}
	for _, want := range []string{
		"64 documents; skipped 1 binary, 1 larger than 1024 KiB, 0 unreadable",
		"400 times",
		"the indexer 5 times",
		"index and database agree",
	} {
		if got := out.String(); !strings.Contains(got, want) {
			t.Errorf("report lacks %q:\n%s", want, got)
		}
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)

	var out bytes.Buffer
	code, err := docsync(t.Context(), job{source: folder(t), redis: server.URL(), edits: 1}, &out, t.Output())
	if code != exitOK || err != nil {
		t.Fatalf("docsync = %d, %v, want %d:\n%s", code, err, exitOK, out.String())
	}
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(left), 0; got != want {
		t.Errorf("%d files are left in the temporary folder, want %d: %v", got, want, left)
	}
	client := server.Client(t)
	size, err := client.Do(t.Context(), client.B().Dbsize().Build()).ToInt64()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := size, int64(0); got != want {
		t.Errorf("%d keys are left in Redis, want %d", got, want)
	}
}

func TestWrongFlags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"unknown flag", []string{"--fast"}, exitUsage, "-fast"},
		{"folder without its flag", []string{"docs"}, exitUsage, "--dir docs"},
		{"no such folder", []string{"--dir", filepath.Join(t.TempDir(), "none")}, exitFailed, "no such file"},
		{"no text", []string{"--dir", t.TempDir()}, exitFailed, "--dir"},
		{"no Redis there", []string{"--dir", folder(t), "--redis", "redis://127.0.0.1:1"}, exitFailed, "Try:"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			if got, want := run(t.Context(), test.args, &out, &errs), test.code; got != want {
				t.Errorf("exit code = %d, want %d", got, want)
			}
			if got, want := errs.String(), test.says; !strings.Contains(got, want) {
				t.Errorf("standard error = %q, want it to say %q", got, want)
			}
			if got, want := out.String(), ""; got != want {
				t.Errorf("standard output = %q, want %q", got, want)
			}
		})
	}
}
