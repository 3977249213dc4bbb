package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/registry"
)

// scanCount is how many keys a server looks at in one step.
const scanCount = 1000

// Scanning is how far a scan has come.
type Scanning struct {
	Addr        string // of the server whose keys are looked at
	Keys        int64  // of its keys that were looked at
	Of          int64  // keys that it has; 0 when it does not say
	Node, Nodes int    // the number of the server, from 1 on, and how many there are
}

// Scan goes through all keys of all masters, one server after the other, and registers the
// structures that are not registered: those that nobody has used since the registry was
// lost, or since there is one. It adds a finding for each server to the report. A server
// that does not answer is one, too, and the others are gone through all the same.
//
// It takes about a second for a million keys. Progress is told after each step, that is
// often, how far it has come; it may be nil. If ctx ends, the report says what was done
// until then.
func (r Report) Scan(ctx context.Context, client rueidis.Client, progress func(Scanning)) Report {
	nodes := client.Nodes()
	addrs := slices.Sorted(maps.Keys(nodes))
	for i, addr := range addrs {
		at := Scanning{Addr: addr, Node: i + 1, Nodes: len(addrs)}
		finding, looked := scanNode(ctx, client, newPatient(ctx, nodes[addr]), at, progress)
		if looked {
			r.add(addr, finding)
		}
	}
	return r.judged()
}

// add adds a finding to those of a server.
func (r *Report) add(addr string, f Finding) {
	r.Nodes = slices.Clone(r.Nodes)
	i := slices.IndexFunc(r.Nodes, func(n Node) bool { return n.Addr == addr })
	if i < 0 {
		r.Nodes = append(r.Nodes, Node{addr, []Finding{f}})
		return
	}
	r.Nodes[i].Findings = append(slices.Clip(r.Nodes[i].Findings), f)
}

// scanNode goes through the keys of one server, unless it is a replica.
func scanNode(ctx context.Context, client rueidis.Client, p *patient, at Scanning, progress func(Scanning)) (f Finding, looked bool) {
	const check = "registry"
	if p.replica() {
		return f, false
	}
	if p.err != nil {
		return Finding{check, Warn, p.err.Error(), "Its keys were not looked at: repeat this when it answers."}, true
	}
	at.Of = p.keys(ctx)
	var all registry.Adopted
	for cursor := uint64(0); ; {
		page, err := p.ask(ctx, p.client.B().Scan().Cursor(cursor).Count(scanCount).Build()).AsScanEntry()
		if err != nil {
			return Finding{
				check, Warn, fmt.Sprintf("%s looked at, and then: %s", readable.Count(int(at.Keys), "key"), err),
				"Structures that were not looked at may be missing from lists: repeat this when the server answers.",
			}, true
		}
		adopted := registry.Adopt(ctx, client, page.Elements)
		all.New += adopted.New
		all.Failed += adopted.Failed
		if adopted.Err != nil {
			all.Err = adopted.Err
		}
		at.Keys += int64(len(page.Elements))
		if progress != nil {
			progress(at)
		}
		if cursor = page.Cursor; cursor == 0 {
			break
		}
	}
	looked = true
	value := readable.Count(int(at.Keys), "key") + " looked at, "
	switch {
	case all.Err != nil:
		return Finding{
			check, Warn, fmt.Sprintf("%s%s registered, %d could not be: %s", value, readable.Count(all.New, "structure"), all.Failed, all.Err),
			"Those are in no list, and no upkeep finds them: let this user write to mr:registry:* and mr:leases:*, and repeat this when all servers answer.",
		}, looked
	case all.New > 0:
		return Finding{
			check, Note, fmt.Sprintf("%s%s registered that nobody had", value, readable.Count(all.New, "structure")),
			"They are in lists and looked after from now on. Who uses a structure registers it by itself.",
		}, looked
	}
	return Finding{check, OK, value + "all structures are registered", ""}, looked
}

// keys returns how many keys the server has, 0 if it does not say.
func (p *patient) keys(ctx context.Context) (n int64) {
	text, err := p.ask(ctx, p.client.B().Info().Section("keyspace").Build()).ToString()
	if err != nil {
		return 0
	}
	for _, line := range parseInfo(text) { // db0:keys=3,expires=0,avg_ttl=0
		var keys int64
		if _, err := fmt.Sscanf(line, "keys=%d", &keys); err == nil {
			n = max(n, keys)
		}
	}
	return n
}
