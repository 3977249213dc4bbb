package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/millracetest"
)

// asCommand makes the test binary docsync.
const asCommand = "DOCSYNC_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		os.Exit(0)
	}
	// Bleve's analysis workers live as long as the program.
	redistest.Main(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

// site is a folder of files, one of data, and a channel.
type site struct {
	t       *testing.T
	files   string
	flags   []string
	server  *millracetest.Server
	channel *ick.Channel
}

func newSite(t *testing.T) *site {
	t.Helper()
	server, name, data := millracetest.Start(t, millracetest.Any), "documents", t.TempDir()
	channel, err := ick.NewChannel(server.Client, name, ick.ChannelConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return &site{t: t, files: t.TempDir(), server: server, channel: channel, flags: []string{"--redis", server.URL, "--data", data, "--name", name}}
}

func (s *site) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.files, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a verb and returns its output.
func (s *site) run(args ...string) (string, error) {
	s.t.Helper()
	var out bytes.Buffer
	err := run(s.t.Context(), append(s.flags, args...), &out)
	return out.String(), err
}

func (s *site) must(args ...string) string {
	s.t.Helper()
	out, err := s.run(args...)
	if err != nil {
		s.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return out
}

// indexer starts a process that indexes.
func (s *site) indexer() *exec.Cmd {
	s.t.Helper()
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(program, append(s.flags, "index")...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stderr = s.t.Output()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// drained waits until no document is dirty.
func (s *site) drained() {
	s.t.Helper()
	redistest.Eventually(s.t, "no document is dirty", func() bool {
		now, err := s.channel.Stats(s.t.Context())
		return err == nil && now.Total == 0 && now.Parked == 0
	})
}

// TestIndexAndDatabaseAgreeAfterKills edits files while the indexer is killed again and
// again.
func TestIndexAndDatabaseAgreeAfterKills(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("empty.txt", "")
	s.write("a folder/with spaces/and ünï.md", "naïve café\n")
	s.write("latin1.txt", "na\xefve caf\xe9\n")
	s.write("caf\xe9 \xff.txt", "a name that is not UTF-8\n")
	s.write("'quoted' \"name\"; --.sql", "DROP TABLE documents;\n")
	s.write("program.bin", "\x7fELF\x00\x01")
	s.write("huge.txt", strings.Repeat("large ", maxFile/6+1))
	for i := range 100 {
		s.write(fmt.Sprintf("more/%02d.txt", i), strings.Repeat(fmt.Sprintf("line of file %d\n", i), i))
	}
	if got, want := s.must("load", s.files), "105 documents changed, 0 deleted\n"; got != want {
		t.Errorf("load prints %q, want %q", got, want)
	}
	for range 5 {
		indexer := s.indexer()
		for i := range 20 {
			s.write(fmt.Sprintf("more/%02d.txt", rand.IntN(60)), fmt.Sprintf("edited as word%d\n", rand.IntN(1000)))
			s.write(fmt.Sprintf("new/%d.txt", rand.IntN(30)), fmt.Sprint("new ", i))
			_ = os.Remove(filepath.Join(s.files, fmt.Sprintf("more/%02d.txt", 60+rand.IntN(40))))
			s.must("load", s.files)
		}
		if err := indexer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = indexer.Wait()
	}
	s.write("last.txt", "the zanzibarine word\n")
	s.must("load", s.files)
	indexer := s.indexer()
	s.drained()
	if err := indexer.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := indexer.Wait(); err != nil {
		t.Errorf("an interrupted indexer ends with %v", err)
	}
	if got := s.must("check"); !strings.HasPrefix(got, "index and database agree") {
		t.Errorf("check prints %q", got)
	}
	if got, want := s.must("search", "zanzibarine"), "last.txt\n"; got != want {
		t.Errorf("search finds %q, want %q", got, want)
	}
}

// TestCheckFindsWhatDiffers changes the database, or the index, and marks nothing.
func TestCheckFindsWhatDiffers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("kept.txt", "one")
	s.must("load", s.files)
	millracetest.WantDirty(t, s.server.Client, s.channel, "kept.txt")
	db, err := openDocuments(t.Context(), s.flags[3])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	index := func(ids ...string) {
		t.Helper()
		x, err := openIndex(s.flags[3])
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		var marks []ick.Entry
		for _, id := range ids {
			marks = append(marks, ick.Entry{Member: id})
		}
		if err := apply(t.Context(), db, x, marks); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(want string) {
		t.Helper()
		if out, err := s.run("check"); err == nil || out != want+"\n" {
			t.Errorf("check = %q, %v, want %q", out, err, want)
		}
	}
	index()
	wants(`"kept.txt" is missing from the index`)
	index("kept.txt", "never was")
	s.must("check")
	for _, statement := range []string{`UPDATE documents SET text = 'two'`, `DELETE FROM documents`} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(statement, "UPDATE") {
			wants(`"kept.txt" has an old text in the index`)
		} else {
			wants(`"kept.txt" is in the index and not in the database`)
		}
	}
	index("kept.txt")
	s.must("check")
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "usage:"},
		{[]string{"load"}, "usage:"},
		{[]string{"load", filepath.Join(s.files, "none")}, "no such file"},
		{[]string{"--fast"}, "-fast"},
		{[]string{"--redis", "redis://127.0.0.1:1", "check"}, "refused"},
	} {
		if _, err := s.run(test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("docsync %q = %v, want %q", test.args, err, test.want)
		}
	}
}
