package failover_test

import (
	"math"
	"slices"
	"time"
)

// fault is something that goes wrong for a while.
type fault func(w *world)

func killAny(w *world)    { w.killSome(w.anyServer()) }
func killMaster(w *world) { w.killSome(w.anyMaster()) }
func stopAny(w *world)    { w.stopSome(&w.anyServer().host) }
func stopMaster(w *world) { w.stopSome(&w.anyMaster().host) }
func slowAny(w *world)    { w.slowSome(&w.anyServer().host) }
func lagAny(w *world)     { w.lagSome(w.anyServer()) }
func saveAny(w *world)    { w.anyServer().save() }

func cutAgentFromServer(w *world)     { w.cutSome(&w.anyAgent().now.host, &w.anyServer().host) }
func cutAgentFromMaster(w *world)     { w.cutSome(&w.anyAgent().now.host, &w.anyMaster().host) }
func cutAgentFromDirectory(w *world)  { w.cutSome(&w.anyAgent().now.host, w.anyKeeper()) }
func cutAgentFromServers(w *world)    { w.cutAll(&w.anyAgent().now.host) }
func cutClientFromMaster(w *world)    { w.cutSome(&w.anyClient().host, &w.anyMaster().host) }
func cutClientFromDirectory(w *world) { w.cutSome(&w.anyClient().host, w.anyKeeper()) }
func cutReplication(w *world)         { w.cutSome(&w.anyServer().host, &w.anyMaster().host) }
func cutServerFromServers(w *world)   { w.cutAll(&w.anyServer().host) }

func killAgent(w *world) { w.anyAgent().now.strike(0) }
func stopAgent(w *world) { w.anyAgent().now.strike(w.while()) }

func stopDirectory(w *world)  { w.stopSome(w.anyKeeper()) }
func slowDirectory(w *world)  { w.slowSome(w.anyKeeper()) }
func killDirectory(w *world)  { w.endDirectory() }
func splitDirectory(w *world) { w.cutSome(w.anyKeeper(), w.anyKeeper()) }

// faults is the list that a schedule draws from, some of them more often than others.
func faults() []fault {
	return []fault{
		killAny, killAny, killAny, killMaster, killMaster, killMaster,
		stopAny, stopAny, stopMaster, stopMaster, stopMaster,
		cutAgentFromServer, cutAgentFromMaster, cutAgentFromMaster, cutAgentFromDirectory, cutAgentFromServers,
		cutClientFromMaster, cutClientFromDirectory, cutReplication, cutServerFromServers,
		slowAny, slowDirectory, lagAny, lagAny, lagAny, saveAny, saveAny,
		killAgent, killAgent, stopAgent, stopAgent, stopDirectory, killDirectory, splitDirectory,
	}
}

// while is how long something lasts: mostly some seconds.
func (w *world) while() time.Duration {
	return time.Duration(float64(100*time.Millisecond) * math.Exp(w.rng.Float64()*math.Log(120)))
}

// between is how long it takes to the next fault: often next to nothing.
func (w *world) between() time.Duration {
	return time.Duration(float64(time.Millisecond) * math.Exp(w.rng.Float64()*math.Log(5000)))
}

func pick[T any](w *world, of []T) T { return of[w.rng.IntN(len(of))] }

func (w *world) anyServer() *server { return pick(w, w.servers) }
func (w *world) anyAgent() *agency  { return pick(w, w.agents) }
func (w *world) anyClient() *client { return pick(w, w.clients) }

// anyKeeper is any server of the directory, often the one that leads.
func (w *world) anyKeeper() *host {
	if w.rng.IntN(2) == 0 {
		return &w.dir.etcd.primary.host
	}
	return &pick(w, w.dir.servers).host
}

func (w *world) anyMaster() *server {
	return w.server(pick(w, w.dir.m.Partitions).Master.Addr)
}

func (w *world) killSome(s *server) {
	machine, how, d := w.rng.IntN(3) == 0, w.rng.IntN(3), w.while()
	if s.down || !w.mayForget(s) {
		return
	}
	s.die(machine)
	w.later(d, func() { s.rise(how, true) })
}

// mayForget reports whether a server can lose its memory without a loss that no protocol
// could prevent. Where writes are confirmed by a replica, members are lost one at a time.
func (w *world) mayForget(s *server) bool {
	p := w.dir.m.Partitions[s.partition]
	if !isVoter(p, s) {
		return true
	}
	if w.confirmed == 0 {
		return s.name == p.Master.Addr || w.baseWithout(s)
	}
	for _, m := range voters(p) {
		if o := w.server(m.Addr); o != s && (o.down || o.forgot || o.amnesic || o.history != p.History) {
			return false
		}
	}
	return true
}

// baseWithout reports whether there is another member from which a partition can
// go on: one of the history that the map has, or the master with its data.
func (w *world) baseWithout(s *server) bool {
	p := w.dir.m.Partitions[s.partition]
	for _, m := range voters(p) {
		o := w.server(m.Addr)
		same := !o.down && (o.history == p.History || o.before == p.History)
		if o != s && !o.gone && o.identity == o.belongs() && (same || m == p.Master) {
			return true
		}
	}
	return false
}

func (w *world) stopSome(h *host) {
	d := w.while()
	w.pause(h)
	w.later(d, func() { w.resume(h) })
}

func (w *world) cutSome(a, b *host) {
	d := w.while()
	if a == b || w.isCut(a, b) {
		return
	}
	w.say("%s is cut off from %s", a.name, b.name)
	w.cut(a, b)
	w.later(d, func() {
		w.say("%s is not cut off from %s any more", a.name, b.name)
		w.mend(a, b)
	})
}

// cutAll cuts a host off from all servers.
func (w *world) cutAll(h *host) {
	d := w.while()
	w.say("%s is cut off from all servers", h.name)
	for _, s := range w.servers {
		if &s.host != h && !w.isCut(h, &s.host) {
			w.cut(h, &s.host)
			w.later(d, func() { w.mend(h, &s.host) })
		}
	}
}

func (w *world) slowSome(h *host) {
	h.slow, h.trouble = time.Duration(w.rng.IntN(1500))*time.Millisecond, time.Now()
	w.say("%s is slow: up to %v", h.name, h.slow)
	w.later(w.while(), func() { h.slow, h.trouble = 0, time.Now() })
}

func (w *world) lagSome(s *server) {
	s.lag = w.while() / 3
	w.say("%s lags behind by %v", s.name, s.lag)
	w.later(w.while(), func() { s.lag = w.quickly(s) })
}

// quickly is how long a write takes to a replica that is well.
func (w *world) quickly(s *server) time.Duration {
	return 200*time.Microsecond + time.Duration(w.draw(&s.host, &s.host, int64(3*time.Millisecond)))
}

// endDirectory has a server of the directory die and come back, or all of them with an
// earlier map.
func (w *world) endDirectory() {
	d, back, dies := w.while(), 0, []*host{w.anyKeeper()}
	if w.restores {
		back, dies = w.rng.IntN(6), nil
		w.dir.everyKeeper(func(h *host) { dies = append(dies, h) })
	}
	if slices.ContainsFunc(dies, func(h *host) bool { return h.down }) {
		return
	}
	for _, h := range dies {
		w.kill(h)
		w.say("%s dies", h.name)
	}
	w.later(d, func() { w.dirReturns(back, dies...) })
}

// endAll has the directory die and come back with any map that it had, and with it all agents, or
// none.
func endAll(w *world) {
	back, d := w.rng.IntN(len(w.dir.stored)), w.while()
	// Only clients know a map that a command stored at the last moment. With etcd no agent that
	// lives on can tell that it was lost.
	agents := w.rng.IntN(3) > 0 || w.store == inEtcd
	var dies []*host
	w.dir.everyKeeper(func(h *host) { dies = append(dies, h) })
	if slices.ContainsFunc(dies, func(h *host) bool { return h.down }) {
		return
	}
	for _, h := range dies {
		w.kill(h)
		w.say("%s dies", h.name)
	}
	for _, a := range w.agents {
		if agents {
			a.now.strike(0)
		}
	}
	w.later(d, func() { w.dirReturns(back, dies...) })
}

// dirReturns starts servers of the directory that are down. If those are all it has, they
// may come with an earlier map.
func (w *world) dirReturns(back int, hosts ...*host) {
	returned := 0
	for _, h := range hosts {
		if h.down {
			h.down = false
			w.say("%s is back", h.name)
			returned++
		}
	}
	if returned == len(w.dir.servers) {
		w.dir.restore(back)
	}
}

// calmDown ends all faults. Of the members that are down, some never come back.
func (w *world) calmDown() {
	w.calm, w.calmed = true, time.Now()
	w.say("no more faults")
	for _, a := range w.agents {
		a.now.goOn()
		a.restart()
	}
	for _, from := range w.everybody() {
		for _, to := range w.everybody() {
			w.mend(from, to)
		}
		w.resume(from)
		if from.slow > 0 {
			from.slow, from.trouble = 0, time.Now()
		}
	}
	w.dir.everyKeeper(func(h *host) { w.dirReturns(0, h) })
	lost, members := 0, 0
	for _, p := range w.dir.m.Partitions {
		members += len(p.Members())
	}
	for _, s := range w.servers {
		if s.gone {
			lost++
		}
	}
	for _, s := range w.servers {
		s.lag = w.quickly(s)
		if s.down && !s.gone && w.confirmed == 0 && 2*(lost+1) <= members && w.upWithout(s) && !w.needed(s) && w.rng.IntN(2) == 0 {
			lost++
			s.gone = true
			w.say("%s never comes back", s.name)
			continue
		}
		s.rise(w.rng.IntN(3), w.rng.IntN(2) == 0)
	}
}

// upWithout reports whether another member can be elected now, by its word alone.
func (w *world) upWithout(s *server) bool {
	p := w.dir.m.Partitions[s.partition]
	for _, m := range voters(p) {
		o := w.server(m.Addr)
		if o != s && !o.down && !o.forgot && (m.Run == "" || m.Run == o.run()) && o.identity == o.belongs() && (o.history == p.History || o.before == p.History) {
			return true
		}
	}
	return false
}
