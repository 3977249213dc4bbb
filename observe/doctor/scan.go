package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/registry"
)

// scanCount is how many keys a server visits in one step.
const scanCount = 1000

// scan visits all keys of all masters, one server after the other, registers the
// structures that are not registered, and adds a finding for each server. A server that
// does not answer keeps it from no other.
func (r *Report) scan(ctx context.Context, client rueidis.Client, servers []*server, progress func(addr string, visited, keys int64)) {
	for _, s := range servers {
		if s.replica() {
			continue
		}
		f := s.scan(ctx, client, progress).in("registry")
		i := slices.IndexFunc(r.Nodes, func(n Node) bool { return n.Addr == s.addr }) // every master is there
		r.Nodes[i].Findings = append(r.Nodes[i].Findings, f)
	}
}

func (s *server) scan(ctx context.Context, client rueidis.Client, progress func(addr string, visited, keys int64)) Finding {
	if s.err != nil {
		return warning("silent", s.err.Error(), "Its keys were not visited: repeat this when it answers.")
	}
	var visited int64
	var all registry.Adopted
	for cursor := uint64(0); ; {
		page, err := s.ask(ctx, s.client.B().Scan().Cursor(cursor).Count(scanCount).Build()).AsScanEntry()
		if err != nil {
			return warning("silent", fmt.Sprintf("%s visited, and then: %s", readable.Count(visited, "key"), err),
				"Structures that were not visited may be missing from lists: repeat this when the server answers.")
		}
		adopted := registry.Adopt(ctx, client, page.Elements)
		all.New += adopted.New
		all.Failed += adopted.Failed
		if adopted.Err != nil {
			all.Err = adopted.Err
		}
		visited += int64(len(page.Elements))
		if progress != nil {
			progress(s.addr, visited, s.keys())
		}
		if cursor = page.Cursor; cursor == 0 {
			break
		}
	}
	value := readable.Count(visited, "key") + " visited, "
	switch {
	case all.Err != nil:
		return warning("not_registered", fmt.Sprintf("%s%s registered, %d could not be: %s", value, readable.Count(all.New, "structure"), all.Failed, all.Err),
			"Those are in no list, and upkeep does not find them: let this user write to mr:registry:* and mr:leases:*, and repeat this when all servers answer.")
	case all.New > 0:
		return note("registered", value+readable.Count(all.New, "structure")+" registered that were not before",
			"Lists and upkeep include them from now on. A program that uses a structure registers it.")
	}
	return ok(value + "all structures are registered")
}

// keys returns how many keys the server has, 0 if unknown.
func (s *server) keys() (n int64) {
	for _, line := range s.info["keyspace"] { // db0:keys=3,expires=0,avg_ttl=0
		var keys int64
		if _, err := fmt.Sscanf(line, "keys=%d", &keys); err == nil {
			n = max(n, keys)
		}
	}
	return n
}
