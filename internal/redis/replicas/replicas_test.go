package replicas

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

const (
	base = "base"
	soon = 100 * time.Millisecond
	long = 20 * time.Second
)

// nothing are commands that change nothing, when k is there.
func nothing(c rueidis.Client) map[string]rueidis.Completed {
	return map[string]rueidis.Completed{
		"a read":              c.B().Get().Key("k").Build(),
		"a write for nothing": c.B().Setnx().Key("k").Value("other").Build(),
		"a script":            c.B().Eval().Script("return redis.call('SETNX', KEYS[1], 'other')").Numkeys(1).Key("k").Build(),
	}
}

// TestConfirm stops the replica, has another client write, and then waits behind commands that
// change nothing: no replica has the write until the stopped one continues.
func TestConfirm(t *testing.T) {
	t.Parallel()
	r := redistest.Replicated(t, 1)
	c, ctx := r.Master.Client(t), t.Context()
	if _, have, err := Confirm(ctx, c, base, 1, long); have != 1 || err != nil {
		t.Fatalf("Confirm alone = %d, %v, want 1 replica", have, err)
	}
	r.Replicas[0].Pause()
	must(t, r.Master.Client(t).Do(ctx, c.B().Set().Key("k").Value("v").Build()).Error())
	for name, cmd := range nothing(c) {
		results, have, err := Confirm(ctx, c, base, 1, soon, cmd.Pin())
		if have != 0 || err != nil || len(results) != 1 || results[0].Error() != nil {
			t.Errorf("Confirm behind %s = %v, %d, %v, want no replica: it is stopped", name, results, have, err)
		}
	}
	r.Replicas[0].Resume()
	for name, cmd := range nothing(c) {
		if _, have, err := Confirm(ctx, c, base, 1, long, cmd); have != 1 || err != nil {
			t.Errorf("Confirm behind %s = %d, %v, want 1 replica", name, have, err)
		}
	}
}

// TestMarkIsSent: behind any command, replicas have one more mark each time. A WAIT of Redis
// 7.2 waits for that mark.
func TestMarkIsSent(t *testing.T) {
	t.Parallel()
	r := redistest.Replicated(t, 1)
	c, ctx := r.Master.Client(t), t.Context()
	must(t, c.Do(ctx, c.B().Set().Key("k").Value("v").Build()).Error())
	replica, want := r.Replicas[0].Client(t), int64(0)
	for name, cmd := range nothing(c) {
		_, have, err := Confirm(ctx, c, base, 1, long, cmd)
		want++
		marks, _ := replica.Do(ctx, replica.B().Get().Key(Key(base)).Build()).AsInt64()
		if have != 1 || err != nil || marks != want {
			t.Errorf("Confirm behind %s = %d, %v, and the replica has %d marks; want %d", name, have, err, marks, want)
		}
	}
}

// TestConfirmOnAFullServer: a command that frees memory is confirmed.
func TestConfirmOnAFullServer(t *testing.T) {
	t.Parallel()
	r := redistest.Replicated(t, 1)
	c, ctx := r.Master.Client(t), t.Context()
	must(t, c.Do(ctx, c.B().Set().Key("k").Value(strings.Repeat("v", 1<<20)).Build()).Error())
	must(t, c.Do(ctx, c.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error())
	if err := c.Do(ctx, c.B().Set().Key("k2").Value("v").Build()).Error(); !retry.Code(err, "OOM") {
		t.Fatalf("SET = %v, want OOM", err)
	}
	results, have, err := Confirm(ctx, c, base, 1, long, c.B().Del().Key("k").Build())
	if err != nil || have != 1 || results[0].Error() != nil {
		t.Errorf("Confirm of a DEL = %v, %d, %v, want 1 replica", results, have, err)
	}
}

// TestNoMark: without a mark the reply of WAIT proves nothing.
func TestNoMark(t *testing.T) {
	t.Parallel()
	r := redistest.Replicated(t, 1)
	c, ctx := r.Master.Client(t), t.Context()
	for name, spoil := range map[string]rueidis.Completed{
		"in an open transaction":     c.B().Multi().Build(),
		"with a key of another type": c.B().Lpush().Key(Key(base)).Element("x").Build(),
	} {
		if _, have, err := Confirm(ctx, c, base, 1, long, spoil); have != 0 || err == nil {
			t.Errorf("Confirm %s = %d, %v, want an error", name, have, err)
		}
	}
}

// TestNobodyElseWaits: each WAIT of Millrace is sent by Confirm.
func TestNobodyElseWaits(t *testing.T) {
	t.Parallel()
	wait := regexp.MustCompile(`\.Wait\(\)\s*\.\s*Numreplicas|Waitaof|\(\s*"(?i:waitaof|wait)"`)
	seen := false
	err := filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch own := path == "../../../internal/redis/replicas/replicas.go"; {
		case own:
			seen = wait.Match(source)
		case wait.Match(source):
			t.Errorf("%s:%d: WAIT; call replicas.Confirm, behind which it cannot return too soon",
				path, 1+bytes.Count(source[:wait.FindIndex(source)[0]], []byte("\n")))
		}
		return nil
	})
	must(t, err)
	if !seen {
		t.Error("the WAIT of Confirm is not found")
	}
}

func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
}

// TestUnreachable: an error says why nothing is known.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	c := server.Client(t, func(o *rueidis.ClientOption) { o.DisableRetry = true })
	server.Kill()
	results, have, err := Confirm(t.Context(), c, base, 1, soon, c.B().Get().Key("k").Build())
	if err == nil || have != 0 || len(results) != 1 || results[0].NonRedisError() == nil || errors.Unwrap(err) == nil {
		t.Errorf("Confirm by a dead server = %v, %d, %v", results, have, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
