package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/script"
)

// patience is how long one server may take over one question.
const patience = 5 * time.Second

// Examine looks at all masters at the same time, and at a replica if that is all there
// is. It changes nothing but the servers' script caches. A server may take 5 seconds over
// each question; that one does not answer is a finding, too. If ctx ends first, no
// server has answered: look at its error before at the report.
func Examine(ctx context.Context, client rueidis.Client) Report {
	r, seen := examineNodes(ctx, client)
	r.Host = checkCPUs(ctx, seen)
	return r.judged()
}

// ExamineFleet looks at the master of every partition as Examine does, and at the
// fleet as a whole. It fails if the directory cannot be asked, and if ctx ends
// first.
func ExamineFleet(ctx context.Context, f *fleet.Fleet) (Report, error) {
	status, err := f.Show(ctx)
	if err != nil {
		return Report{}, err
	}
	r, _ := examineNodes(ctx, f.Client())
	r.Fleet, r.Host = checkFleet(status), checkCPUs(ctx, instancesOf(status))
	return r.judged(), ctx.Err()
}

// examineNodes looks at all nodes at the same time: one that is silent keeps none of
// the others.
func examineNodes(ctx context.Context, client rueidis.Client) (r Report, seen []instance) {
	nodes := client.Nodes()
	addrs := slices.Sorted(maps.Keys(nodes))
	seen = make([]instance, len(addrs))
	found := make([]*Node, len(addrs)) // nil for a replica
	var examining sync.WaitGroup
	for i, addr := range addrs {
		examining.Go(func() {
			p := newPatient(ctx, nodes[addr])
			seen[i] = instance{addr, p.server["process_id"]}
			if !p.replica() || len(nodes) == 1 {
				found[i] = &Node{addr, p.findings(ctx)}
			}
		})
	}
	examining.Wait()
	r.Nodes = []Node{}
	for _, n := range found {
		if n != nil {
			r.Nodes = append(r.Nodes, *n)
		}
	}
	return r, seen
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
	ctx, cancel := script.Within(ctx, patience)
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

func (p *patient) findings(ctx context.Context) []Finding {
	if p.err != nil {
		return []Finding{{"reach", Fail, p.err.Error(), "Check that the server runs and that nothing is between."}}
	}
	return []Finding{
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

// checkScripts runs a script by its text, and then by its hash as every structure
// does.
func (p *patient) checkScripts(ctx context.Context) Finding {
	const check, source, sha = "scripts", "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
	err := p.ask(ctx, p.client.B().Eval().Script(source).Numkeys(0).Build()).Error()
	if err == nil {
		err = p.ask(ctx, p.client.B().Evalsha().Sha1(sha).Numkeys(0).Build()).Error()
	}
	if err != nil {
		return Finding{check, Fail, err.Error(), "Every call of Millrace is a script: allow EVAL and EVALSHA."}
	}
	if cached := p.memory["number_of_cached_scripts"]; cached != "" {
		return Finding{check, OK, "run; " + cached + " cached", ""}
	}
	return Finding{check, OK, "run", ""}
}

// checkClock compares the server's clock with this machine's, which is read
// before and after.
func (p *patient) checkClock(ctx context.Context) Finding {
	const check = "clock"
	before := time.Now()
	parts, err := p.ask(ctx, p.client.B().Time().Build()).AsIntSlice()
	after := time.Now()
	if err != nil || len(parts) != 2 {
		return unknown(check, "The server does not tell its time, which every structure needs: allow TIME.")
	}
	return compareClocks(time.Unix(parts[0], parts[1]*1000), before, after)
}
