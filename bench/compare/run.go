package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// options are the flags of the command.
type options struct {
	only     []string // parts of names
	rounds   int
	scale    float64
	progress io.Writer
	keep     func(*results) error // called after each measurement; nil for nothing
}

// row is one system as it is measured: as it comes, or with a queue for each tenant.
type row struct {
	peer   *peer
	queues bool
}

// Name is the row's name in results.json.
func (r row) Name() string {
	if r.queues {
		return r.peer.Name + "-queues"
	}
	return r.peer.Name
}

// wants reports whether a name was chosen. A list may name systems, measurements, or both.
func (o *options) wants(name string, all []string) bool {
	var mine []string
	for _, part := range o.only {
		if slices.ContainsFunc(all, func(a string) bool { return strings.Contains(a, part) }) {
			mine = append(mine, part)
		}
	}
	return len(mine) == 0 || slices.ContainsFunc(mine, func(part string) bool { return strings.Contains(name, part) })
}

// measureAll runs the chosen measurements, and adds them to the results.
func measureAll(ctx context.Context, o options, into *results) error {
	var systems, names []string
	for _, p := range slices.Concat(peers(), variants()) {
		systems = append(systems, p.Name)
	}
	for _, m := range measures {
		names = append(names, m.Name)
	}
	for _, part := range o.only {
		if !slices.ContainsFunc(slices.Concat(systems, names), func(name string) bool { return strings.Contains(name, part) }) {
			return fmt.Errorf("-only %s: no such name, choose from %s", part, strings.Join(slices.Concat(systems, names), ", "))
		}
	}
	var failed error
	for _, m := range measures {
		if !o.wants(m.Name, names) {
			continue
		}
		var rows []row
		for _, p := range m.systems() {
			if !o.wants(p.Name, systems) {
				continue
			}
			if into.Missing[p.Name] = p.missing(); into.Missing[p.Name] != "" {
				continue
			}
			delete(into.Missing, p.Name)
			rows = append(rows, row{peer: p})
			if m.queues && p.queues {
				rows = append(rows, row{peer: p, queues: true})
			}
		}
		if m.missing != nil && m.missing() != "" {
			fmt.Fprintf(o.progress, "%s: skipped: %s\n", m.Name, m.missing())
			continue
		}
		failed = errors.Join(failed, m.measure(ctx, o, rows, into))
		if o.keep != nil {
			failed = errors.Join(failed, o.keep(into))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// measure runs one measurement of all rows. Rounds alternate between rows, so that a busy minute of
// the machine meets all of them.
func (m *measure) measure(ctx context.Context, o options, rows []row, into *results) error {
	rounds := o.rounds
	if m.once {
		rounds = 1
	}
	seen := map[string][]figures{}
	var mu sync.Mutex
	var failed error
	one := func(r row, round int) {
		fmt.Fprintf(o.progress, "%s: %s, round %d of %d\n", m.Name, r.Name(), round+1, rounds)
		f, err := m.round(ctx, r, o.scale)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s, %s: %w", m.Name, r.Name(), err))
			return
		}
		fmt.Fprintf(o.progress, "%s: %s: %v\n", m.Name, r.Name(), f)
		seen[r.Name()] = append(seen[r.Name()], f)
	}
	var wg sync.WaitGroup
	for round := range rounds {
		for _, r := range rows {
			switch {
			case ctx.Err() != nil:
			case m.together:
				wg.Go(func() { one(r, round) })
			default:
				one(r, round)
			}
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return errors.Join(failed, context.Cause(ctx))
	}
	into.Dates[m.Name] = time.Now().Format(time.DateOnly)
	for name, all := range seen {
		f := merge(all)
		f["rounds"] = float64(len(all))
		into.set(m.Name, name, f)
	}
	return failed
}

// limit is the longest that one round of one row may take.
const limit = 4 * time.Minute

// round is one round of one row.
func (m *measure) round(ctx context.Context, r row, scale float64) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	base := m.base
	base.TenantQueues = r.queues
	s, err := open(ctx, r.peer, base, m.server)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	return m.run(ctx, s, scale)
}

// merge returns the median of each figure over several rounds.
func merge(all []figures) figures {
	merged := figures{}
	for name := range all[0] {
		var values []float64
		for _, f := range all {
			values = append(values, f[name])
		}
		slices.Sort(values)
		merged[name] = values[len(values)/2]
	}
	return merged
}

func removeInstalled() error { return os.RemoveAll(installBullMQ().folder) }
