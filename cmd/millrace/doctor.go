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
	return `Looks at every master: version, eviction, memory, persistence, replicas, scripts and clock. It changes nothing but the server's script cache. Exits with 1 when a check fails.

Examples:

    millrace doctor --redis redis://127.0.0.1:6379`
}

// report is what the doctor found.
type report struct {
	OK    bool         `json:"ok"` // no finding is a fail
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
	client, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	r := examine(ctx, client)
	if err := ctx.Err(); err != nil {
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

// examine looks at all masters, and at a replica if that is all there is.
func examine(ctx context.Context, client rueidis.Client) report {
	nodes := client.Nodes()
	r := report{OK: true, Nodes: []nodeReport{}}
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		p := newPatient(ctx, nodes[addr])
		if p.replica() && len(nodes) > 1 {
			continue
		}
		findings := p.findings(ctx)
		for _, f := range findings {
			r.OK = r.OK && f.Level != levelFail
		}
		r.Nodes = append(r.Nodes, nodeReport{addr, findings})
	}
	return r
}

// table writes the report for people.
func (r report) table(w io.Writer) {
	seen := make(map[level]int)
	for _, node := range r.Nodes {
		fmt.Fprintf(w, "%s\n", node.Addr)
		for _, f := range node.Findings {
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
