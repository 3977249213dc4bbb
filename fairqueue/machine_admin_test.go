package fairqueue

import "pgregory.net/rapid"

// The calls of operators in a random history.

// browse turns the pages of a state while other things happen in between. Each
// page has messages that are in that state then; one that is there all the time
// comes once.
func (c *machine) browse(r *rapid.T) {
	cfg := BrowseConfig{
		State: rapid.SampledFrom([]State{Waiting, InFlight, Delayed}).Draw(r, "place"),
		Max:   rapid.IntRange(1, 4).Draw(r, "max"),
	}
	at := map[State]state{Waiting: waiting, InFlight: flying, Delayed: aside}[cfg.State]
	stays := map[string]int{} // moves, when the first page was turned
	for id, k := range c.model.messages {
		if k.state == at {
			stays[id] = k.moves
		}
	}
	seen, disturbed := map[string]int{}, false
	for disturbances := rapid.IntRange(0, 4).Draw(r, "disturbances"); ; disturbances-- {
		c.lose(r)
		messages, next, err := c.q.Browse(c.t.Context(), cfg)
		if err != nil || len(messages) > cfg.Max {
			r.Fatalf("browse = %d messages, %v", len(messages), err)
		}
		for _, m := range messages {
			k := c.model.messages[m.ID]
			if k.state == ghost && at == flying {
				continue
			}
			c.check(r, "browsed "+m.ID, []any{at, m.Attempt, m.Tenant, m.DecodeError}, []any{k.state, k.made, k.tenant, ""}, nil)
			seen[m.ID]++
		}
		if cfg.After = next; cfg.After == "" {
			break
		}
		if disturbances > 0 && at == waiting { // others lie in the order of times that are equal here
			rapid.SampledFrom([]func(*rapid.T){c.write, c.read, c.cancel, c.resize, c.pause}).Draw(r, "disturbance")(r)
			disturbed = true
			there, _ := readRaw(c.t, c.watch)
			c.batchesAre(r, there)
		}
	}
	for id, moves := range stays {
		// A flow that had a turn, or was held, may be shown twice or not at all.
		if k := c.model.messages[id]; k.moves == moves && seen[id] != 1 && !disturbed {
			r.Fatalf("%s was %s all the time and came %d times", id, at, seen[id])
		}
	}
}

func (c *machine) redrive(r *rapid.T) {
	k := c.someMessage(r, isDead, isDead, gone, waiting)
	want := 0
	if k.state == isDead {
		c.model.leave(k)
		k.state, k.made, k.why, k.worthNot, k.mortal = waiting, 0, "", false, false
		c.model.count.Redriven++
		want = 1
	}
	c.lose(r)
	n, err := c.q.Dead().Redrive(c.t.Context(), k.id)
	c.check(r, "redriven", n, want, err)
}

func (c *machine) retry(r *rapid.T) {
	k := c.someMessage(r, aside, aside, isDead, waiting, flying, gone)
	want := 0
	if k.state == aside {
		c.model.leave(k)
		k.state = waiting
		want = 1
	}
	c.lose(r)
	n, _, err := c.q.Retry(c.t.Context(), SearchConfig{}, k.id, k.id)
	c.check(r, "retried", n, want, err)
}

// retrySome retries the messages of a tenant that failed, and leaves those that their writer delayed.
func (c *machine) retrySome(r *rapid.T) {
	cfg, want := SearchConfig{Tenant: someTenant.Draw(r, "tenant")}, 0
	for _, k := range c.model.messages {
		if k.state == aside && k.made > 0 && k.tenant == cfg.Tenant {
			c.model.leave(k)
			k.state = waiting
			want++
		}
	}
	c.lose(r)
	n, _, err := c.q.Retry(c.t.Context(), cfg)
	c.check(r, "retried", n, want, err)
}

func (c *machine) purgeDead(r *rapid.T) {
	k := c.someMessage(r, isDead, isDead, gone, flying)
	want := 0
	if k.state == isDead {
		c.model.remove(k)
		c.model.count.Purged++
		want = 1
	}
	c.lose(r)
	n, err := c.q.Dead().Purge(c.t.Context(), k.id)
	c.check(r, "purged", n, want, err)
}

func (c *machine) keepDead(r *rapid.T) {
	c.model.most = rapid.IntRange(0, 3).Draw(r, "dead to keep")
	c.lose(r)
	if err := c.q.Dead().Keep(c.t.Context(), c.model.most, 0); err != nil {
		r.Fatal(err)
	}
}

func (c *machine) resize(r *rapid.T) {
	shape := streams{count: rapid.IntRange(0, 5).Draw(r, "streams")}
	if shape.count > 0 {
		shape.perTenant = rapid.IntRange(1, shape.count).Draw(r, "per tenant")
	}
	c.lose(r)
	if err := c.watch.Resize(c.t.Context(), shape.count, shape.perTenant); err != nil {
		r.Fatalf("resize: %v", err)
	}
	c.model.shape = shape
}

func (c *machine) pause(r *rapid.T) {
	call := c.q.Pause
	if c.model.paused {
		call = c.q.Resume
	}
	c.lose(r)
	if err := call(c.t.Context()); err != nil {
		r.Fatalf("pause or resume: %v", err)
	}
	c.model.paused = !c.model.paused
}
