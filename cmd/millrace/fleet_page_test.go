package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/redistest"
)

// inSection is a block of commands on docs/FLEET.md.
type inSection struct {
	section, text string
	played        bool
}

// readFleetPage returns the blocks of commands of docs/FLEET.md.
func readFleetPage(t *testing.T) (blocks []*inSection) {
	t.Helper()
	text, err := os.ReadFile("../../docs/FLEET.md")
	if err != nil {
		t.Fatal(err)
	}
	section, indent, fenced, isShell := "", 0, false, false
	for line := range strings.Lines(string(text)) {
		fence, isFence := strings.CutPrefix(strings.TrimLeft(line, " "), "```")
		switch heading := strings.TrimLeft(line, "#"); {
		case isFence:
			fenced, isShell = !fenced, !fenced && strings.TrimSpace(fence) == "sh"
			if indent = strings.Index(line, "`"); isShell {
				blocks = append(blocks, &inSection{section: section})
			}
		case isShell:
			blocks[len(blocks)-1].text += line[min(indent, len(line)-1):]
		case !fenced && heading != line:
			section = strings.TrimSpace(heading)
		}
	}
	return blocks
}

// shorter is how a drill does not take the hours that the page's do, by section.
var shorter = map[string]struct{ page, drill string }{
	"Creating one": {"RestartSec=1\n", "RestartSec=0.1\n"},
	"Spares":       {"replace-after 10m", "replace-after 2s"},
}

// rehearsal plays the commands of docs/FLEET.md on machines of a network, like a person who has
// nothing but the page.
type rehearsal struct {
	drill
	network

	blocks   []*inSection
	machines map[int]*machine

	unit, members, directory *inSection // how a machine gets these
}

func newRehearsal(t *testing.T) *rehearsal {
	t.Helper()
	redistest.Binary(t)
	r := &rehearsal{
		drill: drill{shell: shell{t: t}, confirmed: map[string][]string{}}, network: newNetwork(t),
		blocks: readFleetPage(t), machines: map[int]*machine{},
	}
	if err := os.MkdirAll(filepath.Join(r.root, "mnt/backup/redis"), 0o700); err != nil {
		t.Fatal(err)
	}
	return r
}

// on returns the machine at 10.0.0.NUMBER.
func (r *rehearsal) on(number int) *machine {
	if r.machines[number] == nil {
		r.machines[number] = r.boots(r.t, number)
	}
	return r.machines[number]
}

// next plays the next block of a section: on machines, or on that of the operator.
func (r *rehearsal) next(section string, machines ...*machine) *inSection {
	r.t.Helper()
	for _, b := range r.blocks {
		if b.section == section && !b.played {
			b.played = true
			if len(machines) == 0 {
				machines = []*machine{r.on(0)}
			}
			for _, m := range machines {
				r.play(b, m)
			}
			return b
		}
	}
	r.t.Fatalf("%q of docs/FLEET.md has no more commands", section)
	return nil
}

// prelude defines the commands of a machine. Each question is answered with yes.
const prelude = `set -eu
millrace() { echo y | MILLRACE_TEST_AS_COMMAND=1 timeout 180 "$MILLRACE" "$@" 3>&- 4<&-; }
systemctl() { echo "$@" >&3; read -r answer <&4; [ "$answer" = done ] || { echo "systemctl $*: $answer" >&2; return 1; }; }
set -x
`

// play has a shell run a block on a machine, and returns its output.
func (r *rehearsal) play(b *inSection, m *machine) string {
	r.t.Helper()
	began, text := time.Now(), b.text
	if short, ok := shorter[b.section]; ok {
		text = strings.ReplaceAll(text, short.page, short.drill)
	}
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	text = strings.NewReplacer(
		"10.0.0.", r.prefix, "/mnt/", r.root+"/mnt/", "/etc/", m.root+"/etc/", "/var/", m.root+"/var/",
		"/usr/bin/redis-server", redistest.Binary(r.t), "/usr/local/bin/millrace", self,
	).Replace(text)
	asks, ask := pipe(r.t)
	answered, answers := pipe(r.t)
	cmd := exec.Command("bash", "-c", prelude+text+"\nset +x; printenv MILLRACE_REDIS_URL > .url || true")
	var out, log redistest.Log
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = m.root, &out, &log, []*os.File{ask, answered}
	cmd.Env = append(os.Environ(), "MILLRACE="+self)
	if r.url != "" {
		cmd.Env = append(cmd.Env, "MILLRACE_REDIS_URL="+r.url)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	_, _ = ask.Close(), answered.Close()
	for asked := bufio.NewScanner(asks); asked.Scan(); {
		answer := "done"
		if err := m.systemctl(strings.Fields(asked.Text())...); err != nil {
			answer = err.Error()
		}
		fmt.Fprintln(answers, answer)
	}
	if err := cmd.Wait(); err != nil {
		r.t.Fatalf("%q of docs/FLEET.md on %s: %v\n%s\n%s%s", b.section, m.addr, err, b.text, log.String(), out.String())
	}
	url, err := os.ReadFile(filepath.Join(m.root, ".url"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.url = strings.TrimSpace(string(url))
	lines := strings.Split(strings.TrimSpace(b.text), "\n")
	r.t.Logf("%v: %s, on %s: %s", time.Since(began).Round(time.Millisecond), b.section, m.addr, lines[len(lines)-1])
	return out.String()
}

// pipe is closed when the test ends.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// isPlayed fails if a section has more commands than were played: any section of the page, or of those of which some
// were played.
func (r *rehearsal) isPlayed(whole bool) {
	r.t.Helper()
	known, texts := map[string]bool{}, map[string]string{}
	for _, b := range r.blocks {
		known[b.section] = known[b.section] || b.played || whole
		texts[b.section] += b.text
	}
	for _, b := range r.blocks {
		if known[b.section] && !b.played {
			r.t.Errorf("no step plays this block of %q in docs/FLEET.md:\n%s", b.section, b.text)
		}
	}
	for section, short := range shorter {
		if known[section] && !strings.Contains(texts[section], short.page) {
			r.t.Errorf("%q of docs/FLEET.md does not say %q", section, short.page)
		}
	}
}

// TestFleetPage plays docs/FLEET.md while programs write: all of it, or, where make more does not
// run, the steps that are
// not long. Writes that a replica has confirmed are lost only where the page says so.
func TestFleetPage(t *testing.T) {
	t.Parallel()
	r := newRehearsal(t)
	steps := []struct {
		what string
		long bool
		play func()
	}{
		{"adding partitions", true, r.grows},
		{"replacing a dead machine", false, r.replacesNode},
		{"having spares", true, r.hasSpares},
		{"restarting all", true, func() { r.next("Restarting, changing versions") }},
		{"moving tags", true, func() { r.next("Moving tags, draining a partition") }},
		{"restoring a partition", false, r.restores},
		{"losing the directory", true, r.losesDirectory},
		{"changing the directory", true, r.changesDirectory},
	}
	r.creates()
	r.dial()
	for _, step := range steps {
		if step.long && !redistest.More() {
			continue
		}
		began := time.Now()
		r.underLoad(step.play)
		r.isGreen()
		r.wants(step.what)
		t.Logf("%v: %s", time.Since(began).Round(time.Millisecond), step.what)
	}
	r.isPlayed(redistest.More())
}

// creates makes a fleet on three empty machines.
func (r *rehearsal) creates() {
	const section = "Creating one"
	r.next(section)
	r.unit = r.next(section, r.on(1), r.on(2), r.on(3), r.on(9))
	r.members = r.next(section, r.on(1), r.on(2), r.on(3))
	r.directory = r.next(section, r.on(9))
	r.next(section)
	r.next(section, r.on(2), r.on(3))
	r.isGreen()
	r.next(section)
}

// starts starts empty servers on machines.
func (r *rehearsal) starts(numbers ...int) {
	for _, number := range numbers {
		r.play(r.unit, r.on(number))
		r.play(r.members, r.on(number))
	}
}

// grows adds three machines.
func (r *rehearsal) grows() {
	r.next("Adding partitions")
	r.starts(4, 5, 6)
	r.next("Adding partitions")
}

// replacesNode has machine a die.
func (r *rehearsal) replacesNode() {
	r.on(1).dies()
	r.starts(7)
	r.shows("each partition has a master", func(doc overview.Fleet) bool { return doc.State == fleet.Partial })
	r.next("Replicas and machines")
}

// hasSpares has machine b die, and does nothing.
func (r *rehearsal) hasSpares() {
	r.starts(8)
	r.next("Spares")
	r.on(2).dies()
	for left := range 4 {
		r.shows("one more spare is a member", func(doc overview.Fleet) bool { return len(doc.Spares) <= 3-left })
	}
	r.shows("no member is dead", func(doc overview.Fleet) bool { return doc.State == fleet.Healthy && len(doc.Tasks) == 0 })
}

// restores goes back to a snapshot of partition 1. Writes confirmed since may be lost there, and
// are marked.
func (r *rehearsal) restores() {
	r.next("Bringing a restored partition in line")
	tags, before := r.tagsOf(1), r.counts()
	r.next("Snapshots")
	newer := "{" + tags[0] + "}newer"
	c := r.fleet.Client()
	if err := c.Do(r.t.Context(), c.B().Set().Key(newer).Value("x").Build()).Error(); err != nil {
		r.t.Fatal(err)
	}
	r.next("Restoring a partition")
	after := r.counts()
	if n, err := c.Do(r.t.Context(), c.B().Exists().Key(newer).Build()).AsInt64(); n != 0 || err != nil {
		r.t.Errorf("the partition has %d of what is newer than the snapshot (%v), want none", n, err)
	}
	r.mu.Lock()
	for _, tag := range tags {
		r.confirmed[tag] = slices.Delete(r.confirmed[tag], before[tag], after[tag])
	}
	r.mu.Unlock()
	r.marks("rebuild", tags)
}

// counts returns how many numbers of each tag are confirmed.
func (r *rehearsal) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	for tag, numbers := range r.confirmed {
		counts[tag] = len(numbers)
	}
	return counts
}

// losesDirectory loses its machine with the disk. Another machine takes the address.
func (r *rehearsal) losesDirectory() {
	r.on(9).dies()
	delete(r.machines, 9)
	r.play(r.unit, r.on(9))
	r.play(r.directory, r.on(9))
	r.next("The directory is lost")
}

// changesDirectory moves the fleet to another one.
func (r *rehearsal) changesDirectory() {
	const section = "Changing the directory"
	r.play(r.unit, r.on(10))
	r.play(r.directory, r.on(10))
	r.next(section, r.on(3))
	r.next(section, r.on(9))
	r.next(section)
	r.next(section, r.on(3))
	r.dial()
}
