package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

// doctorPatience is how long one server may take over one question.
const doctorPatience = 5 * time.Second

type doctorCommand struct{}

// Help shows examples.
func (*doctorCommand) Help() string {
	return `Looks at every master: version, eviction, memory, persistence, replicas, scripts and clock; at the CPUs that servers on this host share, where that can be found out; and at a fleet as a whole. It changes nothing but the server's script cache. Exits with 1 when a check fails.

Examples:

    millrace doctor --redis redis://127.0.0.1:6379
    millrace doctor --redis fleet://127.0.0.1:7000`
}

// report is what the doctor found.
type report struct {
	OK    bool         `json:"ok"`              // no finding is a fail
	Fleet []finding    `json:"fleet,omitempty"` // of a fleet as a whole
	Host  []finding    `json:"host,omitempty"`  // of the servers on this host together, if there are any
	Nodes []nodeReport `json:"nodes"`
}

type nodeReport struct {
	Addr     string    `json:"addr"`
	Findings []finding `json:"findings"`
}

// finding is the outcome of one check of one server.
type finding struct {
	Check string `json:"check"`
	Level level  `json:"level"`
	Value string `json:"value"`
	Hint  string `json:"hint"` // empty when all is well
}

// level says how bad a finding is.
type level string

const (
	levelOK   level = "ok"
	levelNote level = "note" // good to know, or could not be found out
	levelWarn level = "warn" // something will hurt one day
	levelFail level = "fail" // Millrace cannot keep its promises here
)

func unknown(check, hint string) finding { return finding{check, levelNote, "unknown", hint} }

// Run examines.
func (*doctorCommand) Run(ctx context.Context, a *app) error {
	r, err := a.examine(ctx)
	if err != nil {
		return err
	}
	if err := a.print(r, r.table); err != nil {
		return err
	}
	if !r.OK {
		return errSaid
	}
	return nil
}

// examine looks at one Redis or at a fleet.
func (a *app) examine(ctx context.Context) (report, error) {
	if !isFleet(a.url()) {
		client, err := a.open(ctx)
		if err != nil {
			return report{}, err
		}
		defer client.Close()
		return examine(ctx, client).judged(), ctx.Err()
	}
	f, err := a.openFleet(ctx)
	if err != nil {
		return report{}, err
	}
	defer f.Close()
	status, err := f.Show(ctx)
	if err != nil {
		return report{}, err
	}
	r := examine(ctx, f.Client())
	r.Fleet, r.Host = checkFleet(status), checkCPUs(ctx, instancesOf(status))
	return r.judged(), ctx.Err()
}

// examine looks at all masters, and at a replica if that is all there is.
func examine(ctx context.Context, client rueidis.Client) report {
	nodes := client.Nodes()
	r := report{Nodes: []nodeReport{}}
	var instances []instance
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		p := newPatient(ctx, nodes[addr])
		instances = append(instances, instance{addr, p.server["process_id"]})
		if p.replica() && len(nodes) > 1 {
			continue
		}
		r.Nodes = append(r.Nodes, nodeReport{addr, p.findings(ctx)})
	}
	r.Host = checkCPUs(ctx, instances)
	return r
}

// judged returns the report with what it comes to.
func (r report) judged() report {
	r.OK = true
	for _, part := range r.parts() {
		for _, f := range part.Findings {
			r.OK = r.OK && f.Level != levelFail
		}
	}
	return r
}

// parts returns the findings, in the order in which people read them.
func (r report) parts() []nodeReport {
	var parts []nodeReport
	if len(r.Fleet) > 0 {
		parts = append(parts, nodeReport{"the fleet", r.Fleet})
	}
	if len(r.Host) > 0 {
		parts = append(parts, nodeReport{"this host", r.Host})
	}
	return append(parts, r.Nodes...)
}

// table writes the report for people.
func (r report) table(w io.Writer) {
	seen := make(map[level]int)
	for _, part := range r.parts() {
		fmt.Fprintf(w, "%s\n", part.Addr)
		for _, f := range part.Findings {
			seen[f.Level]++
			fmt.Fprintf(w, "  %s\t%s\t%s\n", f.Level, f.Check, f.Value)
			if f.Hint != "" {
				fmt.Fprintf(w, "  \t\t%s\n", f.Hint)
			}
		}
		fmt.Fprintln(w)
	}
	switch fails, warns := seen[levelFail], seen[levelWarn]; {
	case fails > 0:
		fmt.Fprintf(w, "not fit for work: %s, %s\n", count(fails, "failure"), count(warns, "warning"))
	case warns > 0:
		fmt.Fprintf(w, "fit for work, with %s\n", count(warns, "warning"))
	default:
		fmt.Fprintln(w, "fit for work")
	}
}

// patient is one server and what it says of itself.
type patient struct {
	client rueidis.Client
	err    error // why it does not answer at all

	// Sections of INFO; nil where the server has no such section or refuses it.
	server, memory, persistence, replication map[string]string
}

func newPatient(ctx context.Context, client rueidis.Client) *patient {
	p := &patient{client: client}
	for section, into := range map[string]*map[string]string{
		"server": &p.server, "memory": &p.memory, "persistence": &p.persistence, "replication": &p.replication,
	} {
		text, err := p.ask(ctx, client.B().Info().Section(section).Build()).ToString()
		switch _, refused := rueidis.IsRedisErr(err); {
		case err == nil:
			*into = parseInfo(text)
		case !refused:
			p.err = err
			return p
		}
	}
	return p
}

// ask puts one question to the server.
func (p *patient) ask(ctx context.Context, question rueidis.Completed) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	answer, err := script.Prompt(ctx, func(ctx context.Context) (rueidis.RedisResult, error) {
		return p.client.Do(ctx, question), nil
	})
	if err != nil {
		return rueidis.NewResult(rueidis.RedisMessage{}, err)
	}
	return answer
}

// parseInfo reads a section of INFO; nil when it says nothing.
func parseInfo(text string) map[string]string {
	var info map[string]string
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			if info == nil {
				info = make(map[string]string)
			}
			info[key] = value
		}
	}
	return info
}

func (p *patient) replica() bool { return p.replication["role"] == "slave" }

func (p *patient) findings(ctx context.Context) []finding {
	if p.err != nil {
		return []finding{{"reach", levelFail, p.err.Error(), "Check that the server runs and that nothing is between."}}
	}
	return []finding{
		checkVersion(p.server),
		checkEviction(p.memory),
		checkMemory(p.memory),
		checkPersistence(p.persistence, p.savePoints(ctx)),
		checkReplicas(p.replication),
		p.checkScripts(ctx),
		p.checkClock(ctx),
	}
}

// savePoints returns when the server makes snapshots: "" for never, "unknown"
// when it does not say, as behind an ACL.
func (p *patient) savePoints(ctx context.Context) string {
	settings, err := p.ask(ctx, p.client.B().ConfigGet().Parameter("save").Build()).AsStrMap()
	save, ok := settings["save"]
	if err != nil || !ok {
		return "unknown"
	}
	return save
}

// checkScripts loads a script and runs it by its hash, as every structure does.
func (p *patient) checkScripts(ctx context.Context) finding {
	const check, source = "scripts", "return 1"
	sha, err := p.ask(ctx, p.client.B().ScriptLoad().Script(source).Build()).ToString()
	if err == nil {
		err = p.ask(ctx, p.client.B().Evalsha().Sha1(sha).Numkeys(0).Build()).Error()
	}
	if err != nil {
		return finding{check, levelFail, err.Error(), "Every call of Millrace is a script: allow SCRIPT LOAD, EVAL and EVALSHA."}
	}
	if cached := p.memory["number_of_cached_scripts"]; cached != "" {
		return finding{check, levelOK, "run; " + cached + " cached", ""}
	}
	return finding{check, levelOK, "run", ""}
}

// checkClock compares the server's clock with this machine's, which is read
// before and after.
func (p *patient) checkClock(ctx context.Context) finding {
	const check = "clock"
	before := time.Now()
	parts, err := p.ask(ctx, p.client.B().Time().Build()).AsIntSlice()
	after := time.Now()
	if err != nil || len(parts) != 2 {
		return unknown(check, "The server does not tell its time, which every structure needs: allow TIME.")
	}
	return compareClocks(time.Unix(parts[0], parts[1]*1000), before, after)
}
