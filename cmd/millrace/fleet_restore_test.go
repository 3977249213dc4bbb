package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestFleetRestore: both members of a partition lose power, and one comes back. The fleet says who
// is missing and how old the data is, and a person decides.
func TestFleetRestore(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	here, gone := member(t), member(t)
	s.init("--partition", here.Addr()+"@a,"+gone.Addr()+"@b", "--max-age", "1h")
	settings := answer[settingsDoc](s, "fleet", "set").Settings
	if !slices.Contains(settings, settingDoc{"max-age", "1h0m0s", "3s"}) {
		t.Errorf("settings = %+v, want the max-age of init", settings)
	}
	agent := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms", "--json")
	agent.line()
	s.isFull()
	doc := s.shows("the members have a beat", func(doc overview.Fleet) bool {
		return len(doc.Data) == 1 && len(doc.Data[0].Members) == 2 && doc.Data[0].Members[0].Beat > 0 && doc.Data[0].Members[1].Beat > 0
	})
	if d := doc.Data[0]; d.Waits != "" || !d.Members[0].Known || d.Members[0].Text == "" {
		t.Errorf("data = %+v, want what each member has, and nothing that the partition waits for", d)
	}
	c := here.Client(t)
	if err := c.Do(t.Context(), c.B().Save().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	gone.Kill()
	here.Kill()
	here.Restart()
	s.shows("the fleet says what it waits for", func(doc overview.Fleet) bool {
		return strings.Contains(doc.Data[0].Waits, gone.Addr()+" does not answer") && strings.Contains(doc.Data[0].Waits, "millrace fleet restore 0 --from "+here.Addr())
	})
	text := s.run("fleet", "show").stdout
	for _, part := range []string{"Partition 0 is read-only: ", "    " + here.Addr() + ": ", "    " + gone.Addr() + ": does not answer"} {
		if !strings.Contains(text, part) {
			t.Errorf("show prints no %q:\n%s", part, text)
		}
	}
	if f := s.refused(1, "declined", "fleet", "restore", "0", "--from", here.Addr()); f.Hint == "" {
		t.Errorf("restore without a confirmation = %+v, want a hint", f)
	}
	if f := s.refused(1, "no_data", "fleet", "restore", "0", "--from", gone.Addr(), "--yes"); f.Hint == "" {
		t.Errorf("restore from a member that is away = %+v, want a hint", f)
	}
	got := s.run("fleet", "restore", "0", "--from", here.Addr(), "--yes", "--json")
	var done overview.Restored
	if err := json.Unmarshal([]byte(got.stdout), &done); err != nil || got.code != 0 {
		t.Fatalf("restore = %+v, %v, want what it did", got, err)
	}
	if done.From != here.Addr() || len(done.Members) != 2 || !done.Members[0].Known || done.Members[1] != (failover.Age{Addr: gone.Addr(), Text: "does not answer"}) {
		t.Errorf("restore = %+v, want what there was", done)
	}
	s.shows("the partition has that master", func(doc overview.Fleet) bool {
		p := doc.Partitions[0]
		return doc.State == fleet.Partial && p.Master.Addr == here.Addr() && doc.Data[0].Waits == ""
	})
	gone.Restart()
	s.isFull()
	agent.end(syscall.SIGTERM)
}

// TestFleetRestoreFile goes back to a snapshot while all members run and the fleet is in use: one
// command does it.
func TestFleetRestoreFile(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	servers := []*redistest.Server{member(t), member(t), member(t)}
	s.init("--partition", servers[0].Addr()+"@a,"+servers[1].Addr()+"@b", "--partition", servers[2].Addr()+"@c")
	agent := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms", "--json")
	agent.line()
	s.isFull()
	f, err := fleet.Dial(t.Context(), s.url, fleet.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	c := f.Client()
	homes := map[int][]string{}
	write := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			tag := fmt.Sprint("tag-", i)
			if err := c.Do(t.Context(), c.B().Set().Key("{"+tag+"}").Value("x").Build()).Error(); err != nil {
				t.Fatal(err)
			}
			l, err := f.Locate(t.Context(), tag)
			if err != nil {
				t.Fatal(err)
			}
			homes[l.Partition] = append(homes[l.Partition], tag)
		}
	}
	write(0, 60)
	old, archive := slices.Clone(homes[0]), t.TempDir()
	if got := s.run("fleet", "snapshot", "--now", "--archive", archive); got.code != 0 {
		t.Fatal(got)
	}
	var files [2]string
	for id := range files {
		found, err := filepath.Glob(filepath.Join(archive, fmt.Sprintf("*-%d.rdb", id)))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		files[id] = found[0]
	}
	write(60, 120)
	late := homes[0][len(old):]
	if len(old) <= 20 || len(late) == 0 {
		t.Fatalf("%d and %d tags are in partition 0, want more", len(old), len(late))
	}

	none := filepath.Join(t.TempDir(), "none.rdb")
	s.refused(2, "bad_usage", "fleet", "restore", "0", "--from", none, "--yes")
	if err := os.WriteFile(none, []byte("REDIS0011"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.refusedAfterLog(2, "bad_file", "fleet", "restore", "0", "--from", none, "--yes")
	if f := s.refusedAfterLog(1, "no_data", "fleet", "restore", "0", "--from", files[1], "--yes"); !strings.Contains(f.Error, "is of partition 1") {
		t.Errorf("restore from a file of another partition = %+v", f)
	}
	s.refused(2, "bad_usage", "fleet", "restore", "0")
	s.refused(2, "bad_usage", "fleet", "restore", "0", "--doubtful", "--ick", "lost")
	s.refusedAfterLog(1, "declined", "fleet", "restore", "0", "--from", files[0])
	s.isFull()

	got := s.run("fleet", "restore", "0", "--from", files[0], "--ick", "lost", "--yes", "--json")
	var done overview.Restored
	if err := json.Unmarshal([]byte(got.stdout), &done); err != nil || got.code != 0 {
		t.Fatalf("restore = %+v, %v, want what it did", got, err)
	}
	if done.Into != servers[1].Addr() || done.Doubtful != len(old) || len(done.Tags) != 20 || done.Ick != "lost" || done.Saved.IsZero() {
		t.Errorf("restore = %+v, want the file in the replica, and %d doubtful tags", done, len(old))
	}
	doc := s.isFull()
	if got := doc.Partitions[0].Master.Addr; got != servers[1].Addr() {
		t.Errorf("the master is %s, want the member that has loaded the file", got)
	}
	if e := doc.Events; !slices.ContainsFunc(e, func(e directory.Event) bool { return strings.Contains(e.What, "Its data is that of the chosen file") }) {
		t.Errorf("events = %+v, want that it has the data of the file", e)
	}
	for _, server := range servers[:2] {
		direct := server.Client(t)
		n, err := direct.Do(t.Context(), direct.B().Exists().Key("{"+old[0]+"}", "{"+late[0]+"}").Build()).AsInt64()
		if n != 1 || err != nil {
			t.Errorf("%s has %d of an old and a late key, %v, want the old one", server.Addr(), n, err)
		}
	}
	listed := slices.DeleteFunc(strings.Fields(s.run("fleet", "restore", "0", "--doubtful").stdout), func(tag string) bool {
		return !strings.HasPrefix(tag, "tag-") // the Ick, and the record by which it is listed, may have come to the partition since
	})
	slices.Sort(listed)
	slices.Sort(old)
	if !slices.Equal(listed, old) {
		t.Errorf("doubtful are %v, want %v", listed, old)
	}
	(&drill{shell: s, fleet: f}).marks("lost", old)
	agent.end(syscall.SIGTERM)
}

// TestFleetFailoverForce: the machine with most members is gone. Agents do nothing and log the
// reason, a person decides, and they go on with the other members, also when another agent leads.
func TestFleetFailoverForce(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	a, b := []*redistest.Server{member(t), member(t), member(t)}, []*redistest.Server{member(t), member(t)}
	s.init("--partition", a[0].Addr()+"@a,"+b[0].Addr()+"@b", "--partition", a[1].Addr()+"@a,"+b[1].Addr()+"@b", "--partition", a[2].Addr()+"@a", "--max-age", "1h")
	agent := func() *process {
		agent := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms", "--json")
		agent.line()
		return agent
	}
	first := agent()
	s.isFull()
	if f := s.refused(1, "not_switched", "fleet", "failover", "0", "--force", "--yes"); !strings.Contains(f.Error, "answers") {
		t.Errorf("failover --force of a master that answers = %+v", f)
	}
	s.want("the masters of all partitions answer: nothing was done\n", "fleet", "failover", "--force", "--yes")
	direct := a[2].Client(t)
	if err := direct.Do(t.Context(), direct.B().Save().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	for _, server := range a {
		server.Kill()
	}
	s.shows("agents say why they do nothing", func(doc overview.Fleet) bool {
		return slices.ContainsFunc(doc.Events, func(e directory.Event) bool {
			return strings.HasPrefix(e.What, directory.Stopped) && strings.Contains(e.What, "millrace fleet failover --force")
		})
	})
	second := agent() // and it leads: it has never seen the members
	first.end(syscall.SIGTERM)
	redistest.Eventually(t, "the second agent leads", func() bool { return strings.Contains(second.stderr.String(), `"msg":"the agent leads"`) })
	s.refused(1, "declined", "fleet", "failover", "--force")
	s.interruptedAtQuestion("fleet", "failover", "--force")
	s.refused(2, "bad_usage", "fleet", "failover", "0", "1")
	s.refused(1, "no_data", "fleet", "failover", "2", "--force", "--yes")
	got := s.run("fleet", "failover", "--force", "--yes", "--json")
	var done overview.Forced
	if err := json.Unmarshal([]byte(got.stdout), &done); err != nil || got.code != 0 {
		t.Fatalf("failover --force = %+v, %v, want what it did", got, err)
	}
	if len(done.Partitions) != 2 || done.Partitions[0].To != b[0].Addr() || !done.Partitions[0].Done || done.Partitions[0].Data == "" || !slices.Equal(done.Without, []int{2}) {
		t.Errorf("failover --force = %+v, want partitions 0 and 1 on b, and none for 2", done)
	}
	// The rest goes by itself, although most members are still silent.
	a[2].Restart()
	s.shows("partition 2 is back", func(doc overview.Fleet) bool {
		return doc.State == fleet.Partial && doc.Partitions[2].State == fleet.Healthy
	})
	a[0].Restart()
	a[1].Restart()
	s.isFull()
	second.end(syscall.SIGTERM)
}
