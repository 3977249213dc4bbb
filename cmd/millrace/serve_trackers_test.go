//go:build unix

package main

import (
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/pgtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

// trackersFile writes a file for --trackers.
func trackersFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trackers.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServeKeepsTrackers: the service follows tables of a real PostgreSQL, and answers over HTTP; so does the command.
func TestServeKeepsTrackers(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t).DSN()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(text string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE tasks (identifier text, status text); CREATE INDEX ON tasks (identifier); CREATE TABLE jobs (item bigint)")
	exec("INSERT INTO tasks VALUES ('item-17', 'queued'), ('item-18', 'done')")
	exec("INSERT INTO jobs VALUES (5)")

	s := shell{t: t, url: redistest.Start(t, redistest.Options{}).URL()}
	if got := answer[ops.TrackerAnswers](s, "tracker", "queued", "tasks", "item-17").Answers; len(got) != 1 || got[0].State != "unknown" {
		t.Errorf("before the first pass: %+v, want unknown", got)
	}
	url := serving(t, map[string]string{"MILLRACE_REDIS_URL": s.url, "MILLRACE_DATABASE_URL": dsn}, "--trackers", trackersFile(t, `[
		{"name": "tasks", "table": "tasks", "id": "identifier", "where": "status = 'queued'"},
		{"name": "jobs", "table": "jobs", "id": "item", "integer_id": true, "database": "`+dsn+`"}]`))
	states := func(path string) (states string) {
		response, err := plainClient.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var doc ops.TrackerAnswers
		if err := json.NewDecoder(response.Body).Decode(&doc); err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response.Status, err)
		}
		for _, one := range doc.Answers {
			states += string(one.ID) + " " + one.State + "\n"
		}
		return states
	}
	redistest.Eventually(t, "a first pass", func() bool {
		return states("v1/trackers/tasks/queued?id=item-17&id=item-18") == "item-17 queued\nitem-18 not_queued\n" &&
			states("v1/trackers/jobs/queued?id=5") == "5 queued\n"
	})
	exec("INSERT INTO tasks VALUES ('item-19', 'queued')")
	redistest.Eventually(t, "a pass that finds new work", func() bool { return states("v1/trackers/tasks/queued?id=item-19") == "item-19 queued\n" })
	if got := s.run("tracker", "queued", "tasks", "item-17", "item-18").stdout; !strings.Contains(got, "item-17  queued      ") || !strings.Contains(got, "item-18  not queued  ") {
		t.Errorf("the command says %q", got)
	}
	stats := answer[ops.TrackerStats](s, "tracker", "stats", "tasks")
	if stats.Tracked != 2 || stats.Passes == 0 || stats.Counters.Added != 2 {
		t.Errorf("stats %+v, want two tracked", stats)
	}
	response, err := plainClient.Get(url + "metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if page, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(page), `tracker="tasks"`) || !strings.Contains(string(page), `tracker="jobs"`) {
		t.Errorf("the metrics do not have both trackers: %v", err)
	}
}

// TestServeRefusesTrackers: what is wrong about a file or a database is told at the start, without a password.
func TestServeRefusesTrackers(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	good := `[{"name":"tasks","table":"tasks","id":"identifier"}]`
	dsn := pgtest.Start(t).DSN()
	for name, tt := range map[string]struct{ file, database, code, says string }{
		"no JSON":        {`[{"name":`, dsn, "bad_usage", "trackers.json"},
		"unknown":        {`[{"name":"a","table":"t","id":"i","grace":"1s"}]`, dsn, "bad_usage", "grace"},
		"no table":       {`[{"name":"a","id":"i"}]`, dsn, "bad_usage", "entry 1"},
		"twice":          {`[{"name":"a","table":"t","id":"i"},{"name":"a","table":"t","id":"i"}]`, dsn, "bad_usage", `"a"`},
		"no database":    {good, "", "bad_url", "no database"},
		"no URL":         {good, "postgres://ada:" + secret + "@%%%/x", "bad_url", "cannot be read"},
		"no such server": {good, "postgres://ada:" + secret + "@127.0.0.1:1/archive", "database", "127.0.0.1"},
		"no such table":  {good, dsn + " password=" + secret, "database", `"tasks"`},
		"no name":        {`[{"name":"mr:{","table":"pg_catalog.pg_class","id":"relname"}]`, dsn, "bad_name", "tracker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"MILLRACE_REDIS_URL": redistest.Shared(t).URL(), "MILLRACE_DATABASE_URL": tt.database}
			var stdout, stderr strings.Builder
			a := &app{env: func(name string) string { return env[name] }, stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
			code := a.run(t.Context(), []string{"serve", "--json", "--listen", "127.0.0.1:0", "--trackers", trackersFile(t, tt.file)})
			var f failure
			if err := json.Unmarshal([]byte(stderr.String()), &f); err != nil || f.Code != tt.code || !strings.Contains(f.Error, tt.says) || f.Hint == "" {
				t.Errorf("it exits with %d and says %s (%v), want the code %s and %s", code, &stderr, err, tt.code, tt.says)
			}
			if strings.Contains(stderr.String(), secret) || stdout.Len() > 0 {
				t.Errorf("it says %s%s", &stdout, &stderr)
			}
		})
	}
}
