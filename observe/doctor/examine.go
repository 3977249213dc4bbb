package doctor

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// timeout is how long one server may take to answer one command.
const timeout = 5 * time.Second

// Config selects what to examine besides the servers.
type Config struct {
	// Fleet is the fleet that the client belongs to. It is checked as a whole, too, as by
	// millrace fleet check without looking up tags. Defaults to none.
	Fleet *fleet.Fleet

	// Scan visits all keys of all masters and registers structures that are not
	// registered: they were not used since the registry was lost. It adds one
	// finding for each master, and takes about a second for a million keys. Defaults
	// to false.
	Scan bool

	// Deep compares the data that each queue stores in two places: up to 1,000 queues, one after the other, and of each up to
	// 20,000 messages, read in one call. Defaults to false.
	Deep bool

	// Progress is called after each step of a scan with the address of a server, how
	// many of its keys were visited, and how many it has (0 if unknown). Defaults to
	// none.
	Progress func(addr string, visited, keys int64)
}

// Examine examines all masters at the same time, or a replica if it is the only
// server. It takes a second, for which it watches their load. It changes only the servers' script caches, unless it scans. A server that
// does not answer a command within 5 seconds gets a finding. Examine fails if ctx ends
// or if the fleet's directory does not answer.
func Examine(ctx context.Context, client rueidis.Client, cfg Config) (Report, error) {
	var r Report
	var seen []process
	if cfg.Fleet != nil {
		status, err := cfg.Fleet.Status(ctx)
		if err != nil {
			return r, err
		}
		seen = processesOf(status)
		if r.Fleet, err = checkFleet(ctx, cfg.Fleet); err != nil {
			return r, err
		}
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	work := make(chan []Finding, 1)
	go func() { work <- checkQueues(working, client) }() // at the same time: a silent server delays both
	servers := inspect(ctx, client, cfg.Fleet != nil)
	reached := slices.ContainsFunc(servers, func(s *server) bool { return s.err == nil && !s.replica() })
	if !reached {
		stop()
	}
	explainEviction(ctx, client, servers)
	r.Nodes = []Node{}
	for _, s := range servers {
		if cfg.Fleet == nil {
			seen = append(seen, process{s.addr, s.info["server"]["process_id"]})
		}
		if !s.replica() || len(servers) == 1 {
			r.Nodes = append(r.Nodes, Node{s.addr, s.findings})
		}
	}
	r.Host = checkCPUs(ctx, seen)
	if found := <-work; reached {
		r.Work = found
	}
	if cfg.Deep && reached {
		r.Work = append(r.Work, checkKeys(ctx, client)...)
	}
	if cfg.Scan {
		r.scan(ctx, client, servers, cfg.Progress)
	}
	r.OK = r.count()[Critical] == 0
	return r, ctx.Err()
}

// inspect runs the checks on all servers at the same time, so that a silent one
// delays no other. It returns them by address.
func inspect(ctx context.Context, client rueidis.Client, members bool) []*server {
	nodes := client.Nodes()
	var servers []*server
	var all sync.WaitGroup
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		s := &server{client: nodes[addr], addr: addr, member: members, info: map[string]info.Fields{}}
		servers = append(servers, s)
		all.Go(func() { s.inspect(ctx) })
	}
	all.Wait()
	return servers
}

// server is one server under examination.
type server struct {
	client   rueidis.Client
	addr     string
	member   bool                   // of a fleet
	info     map[string]info.Fields // by section of INFO; absent if refused
	err      error                  // why it does not answer at all
	findings []Finding
}

func (s *server) inspect(ctx context.Context) {
	for _, section := range []string{"server", "memory", "persistence", "replication", "keyspace"} {
		text, err := s.ask(ctx, s.client.B().Info().Section(section).Build()).ToString()
		if _, refused := rueidis.IsRedisErr(err); err != nil && !refused {
			s.err = err
			s.findings = []Finding{critical("silent", err.Error(), "Check that the server runs and that the network lets you reach it.").in("reach")}
			return
		}
		s.info[section] = info.Parse(text)
	}
	before := s.usage(ctx)
	for _, check := range serverChecks {
		s.findings = append(s.findings, check.run(ctx, s).in(check.name))
	}
	retry.Sleep(ctx, sampleTime-time.Since(before.at))
	after := s.usage(ctx)
	s.findings = append(s.findings, checkLoad(before, after).in("load"), checkConnections(before, after).in("connections"))
}

// ask sends one command to the server.
func (s *server) ask(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	ctx, cancel := script.Within(ctx, timeout)
	defer cancel()
	reply, err := script.Prompt(ctx, func(ctx context.Context) (rueidis.RedisResult, error) {
		return s.client.Do(ctx, command), nil
	})
	if err != nil {
		return rueidis.NewResult(rueidis.RedisMessage{}, err)
	}
	return reply
}

func (s *server) replica() bool { return s.info["replication"]["role"] == "slave" }
