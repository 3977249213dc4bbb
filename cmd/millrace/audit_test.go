package main

import (
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

// auditLog returns the entries in the audit log of a shell's server, the latest first.
func (s shell) auditLog() []audit.Entry {
	s.t.Helper()
	client := s.client()
	defer client.Close()
	entries, err := audit.New(client, slog.New(slog.DiscardHandler), slog.LevelDebug).List(s.t.Context(), audit.ListConfig{Most: 1000})
	if err != nil {
		s.t.Fatal(err)
	}
	return entries
}

// TestCommandsAreAudited: each command that people change something with is in the audit log, once,
// also if it fails; the work of programs, a question that is not answered with yes, and a wrong
// command line are not.
func TestCommandsAreAudited(t *testing.T) {
	t.Parallel()
	s := shell{t: t, url: redistest.Start(t, redistest.Options{}).URL()}
	written := 0
	tried := map[string]bool{} // by action
	// It runs a command, and wants this entry in the log, or none.
	does := func(want, stdin string, args ...string) {
		t.Helper()
		got := s.feed(stdin, args...)
		entries := s.auditLog()
		added := entries[:len(entries)-written]
		written = len(entries)
		text := ""
		for _, e := range added {
			text += e.Action + " " + e.Name + ": " + e.Result
			if tried[e.Action] = true; e.Error != "" {
				text += " failed"
			}
			if e.Way != "command" || e.Who != person() || e.From != "" || time.Since(e.At).Abs() > time.Minute || e.ID == "" {
				t.Errorf("millrace %s is entered as %+v", strings.Join(args, " "), e)
			}
			if failed := got.code != 0; failed != (e.Error != "") {
				t.Errorf("millrace %s = %+v is entered as %+v", strings.Join(args, " "), got, e)
			}
		}
		if text != want {
			t.Errorf("after millrace %s the log has %q more, want %q (%+v)", strings.Join(args, " "), text, want, got)
		}
	}
	run := func(want, line string) { t.Helper(); does(want, "", strings.Fields(line)...) }
	no := func(line string) { t.Helper(); run("", line) }

	run("queue.pause q: millrace queue pause q failed", "queue pause q")
	no("queue write q --tenant a --body b")
	no("queue pause q --no-such-flag")
	no("queue resize q -1")
	run("queue.pause q: millrace queue pause q", "queue pause q --json")
	run("queue.resume q: millrace queue resume q", "--json queue resume q")
	run("queue.resize q: millrace queue resize q 4 --per-tenant=2", "queue resize q 4 --per-tenant 2")
	run("queue.resize q: millrace queue resize q 0", "queue resize q 0")
	no("queue position q")
	no("queue position q source")
	run("queue.position q: millrace queue position q source --set=17", "queue position q source --set 17")
	run("tenant.limits q: millrace queue tenant set q acme --rate=5/s", "queue tenant set q acme --rate 5/s")
	run("tenant.limits q: millrace queue tenant set q --default --max-waiting=1000", "queue tenant set q --default --max-waiting 1000")
	no("queue tenant set q acme")
	no("queue tenant show q acme")
	does("tenant.clear q: millrace queue tenant clear q 'two words'", "", "queue", "tenant", "clear", "q", "two words")
	run("tenant.pause q: millrace queue tenant pause q acme --for=10m", "queue tenant pause q acme --for 10m")
	run("tenant.resume q: millrace queue tenant resume q acme", "queue tenant resume q acme")
	does("", "n\n", "queue", "tenant", "purge", "q", "acme")
	does("tenant.purge q: millrace queue tenant purge q acme", "y\n", "queue", "tenant", "purge", "q", "acme")
	run("tenant.purge q: millrace queue tenant purge q acme", "queue tenant purge q acme --yes")

	read := s.takeOne("q")
	no("queue extend q " + read.Receipt + " 1m")
	run("queue.cancel q: millrace queue cancel q "+read.ID, "queue cancel q "+read.ID)
	s.put("q", "a", "1")
	read = s.takeOne("q")
	no("queue nack q --delay 0s " + read.Receipt)
	read = s.takeOne("q")
	run("queue.dead q: millrace queue nack q "+read.Receipt+" --dead --reason=broken", "queue nack q "+read.Receipt+" --dead --reason broken")
	no("queue failures q")
	no("queue retry q --all --dry-run")
	run("queue.retry q: millrace queue retry q --all", "queue retry q --all")
	no("queue dead q")
	no("queue dead groups q")
	no("queue dead redrive q --all --dry-run")
	no("queue dead purge q --all --dry-run")
	no("queue dead purge q")
	no("queue dead purge q --all --json")
	run("queue.redrive q: millrace queue dead redrive q --all", "queue dead redrive q --all")
	no("queue ack q " + s.takeOne("q").Receipt)
	run("queue.purge q: millrace queue dead purge q --all", "queue dead purge q --all --yes")
	run("queue.dead-after q: millrace queue dead after q --attempts=9", "queue dead after q --attempts 9")
	run("queue.keep-dead q: millrace queue dead keep q --most=5", "queue dead keep q --most 5")

	secret := []string{"schedule", "set", "q", "daily", "--every", "1h", "--tenant", "a", "--body", "SECRET", "--header", "k=SECRET"}
	does("schedule.set q: millrace schedule set q daily --every=1h --tenant=a", "", secret...)
	no("schedule next q daily")
	run("schedule.run q: millrace schedule run q daily", "schedule run q daily")
	run("schedule.pause q: millrace schedule pause q daily", "schedule pause q daily")
	run("schedule.resume q: millrace schedule resume q daily", "schedule resume q daily")
	does("", "n\n", "schedule", "rm", "q", "daily")
	run("schedule.remove q: millrace schedule rm q daily", "schedule rm q daily --yes")
	run("schedule.remove q: millrace schedule rm q daily failed", "schedule rm q daily --yes")
	batch := answer[ops.CreatedBatch](s, "batch", "create", "q", "--tenant", "a").ID
	no("batch close q " + batch)
	run("batch.cancel q: millrace batch cancel q "+batch, "batch cancel q "+batch)
	no("queue rm q")
	run("queue.delete q: millrace queue rm q", "queue rm q --yes")

	no("ick add search 1 doc:17")
	s.park("search", "broken", ick.ConsumeConfig{MaxAttempts: 1})
	no("ick parked search")
	run("ick.retry search: millrace ick parked retry search doc:17", "ick parked retry search doc:17")
	run("ick.drop search: millrace ick parked rm search --all", "ick parked rm search --all")
	run("ick.delete search: millrace ick rm search --force", "ick rm search --force")

	no("ick channel add pages 1 page:17")
	run("channel.resize pages: millrace ick channel resize pages 2", "ick channel resize pages 2")
	run("channel.delete pages: millrace ick channel rm pages", "ick channel rm pages")

	no("pinned set flags a 1 --ttl 1h")
	no("pinned rm flags a")
	no("tracker add tasks item-17")
	run("tracker.delete tasks: millrace tracker rm tasks", "tracker rm tasks")

	no("hash set sessions user:1 a 1")
	no("hash set sessions user:1 b 1")
	no("hash rm sessions user:1 a")
	run("hash.delete sessions/user:1: millrace hash rm sessions user:1", "hash rm sessions user:1")
	run("hash.delete sessions: millrace hash rm sessions --all", "hash rm sessions --all --yes")

	token := answer[grantDoc](s, "lease", "acquire", "nightly", "--ttl", "1m").Token
	no("lease refresh nightly --ttl 2m --token " + token)
	no("lease release nightly --token " + token)
	client := s.client()
	defer client.Close()
	locker, err := lease.New(client, lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	held, err := locker.Acquire(t.Context(), "nightly", time.Minute, lease.AcquireConfig{})
	if err != nil {
		t.Fatal(err)
	}
	run("lease.release nightly: millrace lease release nightly", "lease release nightly --token "+held.Token)

	for _, row := range ops.All() {
		if row.Words != "" && row.Action != "" && !tried[row.Action] {
			t.Errorf("nothing was entered for millrace %s", row.Words)
		}
	}
}

// TestEachCommandIsAuditedOrNot: each command has a row, whose class says it, or is in a list here
// that says why the audit log does not have it.
func TestEachCommandIsAuditedOrNot(t *testing.T) {
	t.Parallel()
	var not []string
	for why, commands := range map[string]string{
		"they look":                                          `completion; context ls; doctor; version`,
		"they do the work of programs":                       `ick channel work; lease run; queue work`,
		"their actions and requests are audited":             `serve; top`,
		"they change only what they made, or a file of ours": `bench; demo; context rm; context set; context use`,
	} {
		for command := range strings.SplitSeq(commands, ";") {
			if command = strings.TrimSpace(command); slices.Contains(not, command) {
				t.Errorf("millrace %s is listed twice, also as: %s", command, why)
			}
			not = append(not, command)
		}
	}
	all := map[string]bool{}
	for _, leaf := range leaves(t) {
		command := strings.TrimPrefix(leaf.FullPath(), "millrace ")
		all[command] = true
		_, described := ops.ByCommand(command)                                          // its class says it
		listed := slices.Contains(not, command) || strings.HasPrefix(command, "fleet ") // which has a log of its own
		if described == listed {
			t.Errorf("millrace %s: is it audited or not? Give it a row in internal/ops, or write it into a list here", command)
		}
	}
	for _, command := range not {
		if !all[command] {
			t.Errorf("there is no command %q", command)
		}
	}
}

// TestAQuestionThatIsInterruptedIsNotAudited, since nothing was changed.
func TestAQuestionThatIsInterruptedIsNotAudited(t *testing.T) {
	t.Parallel()
	s := shell{t: t, url: redistest.Start(t, redistest.Options{}).URL()}
	s.put("q", "a", "1")
	code := s.interruptedAtQuestion("queue", "tenant", "purge", "q", "a")
	if entries := s.auditLog(); code != 1 || len(entries) > 0 {
		t.Errorf("it exits with %d, and the log has %+v", code, entries)
	}
}

// TestAnEntryThatCannotBeWritten fails no command, and shows nowhere.
func TestAnEntryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	client := server.Client(t)
	s := shell{t: t, url: server.URL()}
	s.put("q", "a", "1")
	do := func(words ...string) {
		t.Helper()
		if err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	do("ACL", "SETUSER", "ops", "on", ">secret", "+@all", "~mr:queue:*", "~mr:registry:*")
	operator := shell{t: t, url: strings.Replace(server.URL(), "redis://", "redis://ops:secret@", 1)}
	operator.want("paused\n", "queue", "pause", "q")
	do("SET", "mr:audit:{log}:queue.resume", "x")
	s.want("resumed\n", "queue", "resume", "q")
	if entries, err := client.Do(t.Context(), client.B().Exists().Key("mr:audit:{log}:queue.pause").Build()).AsInt64(); err != nil || entries != 0 {
		t.Errorf("there is an entry: %d, %v", entries, err)
	}
}

// TestAFullServerIsPurged, and that is in the audit log.
func TestAFullServerIsPurged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	s := shell{t: t, url: server.URL()}
	s.put("q", "a", "1")
	if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	s.want("1 message removed\n", "queue", "tenant", "purge", "q", "a", "--yes")
	if entries := s.auditLog(); len(entries) != 1 {
		t.Errorf("the log has %+v", entries)
	}
}

// TestCommandsAreAuditedEverywhere: on a Cluster, behind Sentinels and on a fleet, over the
// connection of the command.
func TestCommandsAreAuditedEverywhere(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"cluster":   func(t *testing.T) string { return redistest.Cluster(t, 3, 0).URL() },
		"sentinels": func(t *testing.T) string { return redistest.Sentinels(t, 0).URL() },
		"fleet": func(t *testing.T) string {
			s := fleetShell(t)
			s.init(specs(member(t), member(t))...)
			return s.url
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shell{t: t, url: url(t)}
			s.put("q", "a", "1")
			s.want("paused\n", "queue", "pause", "q")
			if entries := s.auditLog(); len(entries) != 1 || entries[0].Action != "queue.pause" {
				t.Errorf("the log has %+v", entries)
			}
		})
	}
}

// TestAnEntryNeedsNoConnection of its own.
func TestAnEntryNeedsNoConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	s := shell{t: t, url: server.URL()}
	s.put("q", "a", "1")
	made := func(args ...string) int {
		before := connections(t, client)
		s.run(args...)
		return connections(t, client) - before
	}
	if looks, changes := made("queue", "stats", "q"), made("queue", "pause", "q"); looks != changes {
		t.Errorf("a command that changes makes %d connections, one that looks %d", changes, looks)
	}
}

// connections returns how many connections a server has accepted.
func connections(t *testing.T, client rueidis.Client) (n int) {
	t.Helper()
	info, err := client.Do(t.Context(), client.B().Info().Section("stats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(line, "total_connections_received:"); ok {
			for _, digit := range strings.TrimSpace(text) {
				n = n*10 + int(digit-'0')
			}
		}
	}
	return n
}

// TestPerson is the user and the host of this process.
func TestPerson(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	u, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	if got, want := person(), u.Username+"@"+host; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
}
