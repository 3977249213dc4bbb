package conformance

import (
	"time"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/tracker"
)

func walkHashes(w *walker) {
	h, err := expiry.Open(w, w.client, w.name, expiry.Config{Shards: 1})
	w.must("Open", err)
	set := func(cfg expiry.SetConfig, fields ...string) {
		values := map[string][]byte{}
		for _, f := range fields {
			values[f] = []byte("1")
		}
		_, err := h.SetMany(w, "h", values, cfg)
		w.must("SetMany", err)
	}
	set(expiry.SetConfig{TTL: time.Minute}, "a", "b")
	set(expiry.SetConfig{KeepTTL: true, IfExist: true}, "a")
	set(expiry.SetConfig{}, "c")
	_, _, err = h.Get(w, "h", "a")
	w.must("Get", err)
	_, err = h.GetMany(w, "h", "a", "c")
	w.must("GetMany", err)
	_, err = h.GetAll(w, "h")
	w.must("GetAll", err)
	for _, err := range h.Scan(w, "h") {
		w.must("Scan", err)
	}
	_, err = h.Len(w, "h")
	w.must("Len", err)
	_, err = h.Incr(w, "h", "c", 2)
	w.must("Incr", err)
	_, err = h.Expire(w, "h", time.Hour, expiry.ExpireConfig{}, "c")
	w.must("Expire", err)
	_, err = h.Expire(w, "h", expiry.NoTTL, expiry.ExpireConfig{}, "c")
	w.must("Persist", err)
	_, err = h.Stats(w)
	w.must("Stats", err)
	w.found("Names", "h", h.Names(w))
	w.found("List", w.name, expiry.List(w, w.client))
	_, err = h.Remove(w, "h", "a")
	w.must("Delete", err)
	_, err = h.RemoveHash(w, "h")
	w.must("RemoveHash", err)
	w.must("Delete", h.Delete(w))
}

func walkHashesUpkeep(w *walker) {
	h, err := expiry.Open(w, w.client, w.name, expiry.Config{Shards: 1})
	w.must("Open", err)
	_, err = h.Set(w, "h", "f", []byte("1"), expiry.SetConfig{Deadline: time.Unix(1, 0)})
	w.must("Set", err)
	_, err = h.Set(w, "h", "g", []byte("1"), expiry.SetConfig{TTL: time.Millisecond})
	w.must("Set", err)
	w.work(h.Jobs()[0])
	_, err = h.Jobs()[1].Slice(w)
	w.must("policy", err)
	_, err = h.Set(w, "h", "f", []byte("1"), expiry.SetConfig{TTL: time.Hour})
	w.must("Set", err)
	w.did("EXPIRE", "mr:hash:{"+w.name+"/0}:h:h", "3600")
	w.work(expiry.Jobs(w.client)[0])
}

func walkKeys(w *walker) {
	k, err := pinned.Open(w, w.client, w.name, pinned.Config{Shards: 1})
	w.must("Open", err)
	_, err = k.Set(w, "a", []byte("1"), time.Minute, pinned.SetConfig{IfNone: true})
	w.must("Set", err)
	_, _, err = k.Get(w, "a")
	w.must("Get", err)
	_, err = k.GetMany(w, "a", "b")
	w.must("GetMany", err)
	_, err = k.Expire(w, "a", time.Hour)
	w.must("Expire", err)
	_, err = k.Stats(w)
	w.must("Stats", err)
	w.found("List", w.name, pinned.List(w, w.client))
	_, err = k.Jobs()[1].Slice(w)
	w.must("policy", err)
	_, err = k.Set(w, "b", []byte("1"), time.Millisecond, pinned.SetConfig{})
	w.must("Set", err)
	w.work(k.Jobs()[0])
	w.did("EXPIRE", "mr:key:{"+w.name+"/0}:values", "3600")
	w.work(pinned.Jobs(w.client)[0])
	w.found("Names", "a", k.Names(w))
	_, err = k.Remove(w, "a")
	w.must("Delete", err)
	w.must("Delete", k.Delete(w))
}

func walkFetch(w *walker) {
	c, err := fetch.Open(w, w.client, w.name, fetch.Config{TTL: time.Millisecond})
	w.must("fetch.Open", err)
	_, _, err = fetch.Get(w, c, "a", says("1"))
	w.must("Get", err)
	w.work(c.Jobs()[0])
	_, _, err = fetch.Get(w, c, "a", says("1"))
	w.must("Get", err)
	w.must("Forget", c.Forget(w, "a"))
}

func walkTracker(w *walker) {
	source := &table{}
	source.start("a", "b", "c")
	t, err := tracker.New(w.client, w.name, tracker.Config{Source: source, Grace: time.Millisecond})
	w.must("tracker.New", err)
	w.must("Fill", t.Fill(w, nil))
	w.must("Add", t.Add(w, "d"))
	_, err = t.Queued(w, "a")
	w.must("Queued", err)
	_, err = t.Stats(w)
	w.must("Stats", err)
	source.start("e")
	w.work(t.Jobs()[0])
	source.finish("a")
	w.work(t.Jobs()[1])
	_, err = t.Delete(w)
	w.must("Delete", err)
}

// counters returns a group of counters over both servers.
func (w *walker) counters() *scatter.Scatter {
	sc, err := scatter.New(scatter.Clients(w.client, w.other), scatter.Config{
		Group:  w.name,
		Shard:  func(string, int) int { return 0 },
		Logger: quiet,
	})
	w.must("scatter.New", err)
	return sc
}

// fill writes a value of each kind.
func (w *walker) fill(sc *scatter.Scatter) {
	s := sc.Session("any")
	s.Add(w.name+":int", 1)
	s.AddFloat(w.name+":float", 0.5)
	s.Insert(w.name+":set", "a", "b")
	s.Push(w.name+":list", 2, []byte("1"))
	s.Push(w.name+":list", 2, []byte("2"))
	s.Push(w.name+":list", 2, []byte("3"))
	s.Score(w.name+":scores", "a", 1, scatter.Sum)
	s.Score(w.name+":best", "a", 1, scatter.Max)
	s.Score(w.name+":least", "a", 1, scatter.Min)
	s.In(scatter.Bucket{}).Add(w.name+":bucket", 1)
	w.must("Flush", s.Flush(w))
}

// gather reads a value of each kind.
func (w *walker) gather(sc *scatter.Scatter) {
	g := sc.Gather()
	g.Int(w.name + ":int")
	g.Float(w.name + ":float")
	g.Set(w.name + ":set")
	g.List(w.name+":list", 10)
	g.Scores(w.name+":scores", scatter.Sum, 10)
	w.must("Read", g.Read(w))
	_, err := sc.Left(w)
	w.must("Left", err)
}

func walkCounters(w *walker) {
	sc := w.counters()
	defer sc.Close()
	w.fill(sc)
	w.gather(sc)
	undone := sc.Session("any")
	undone.Add(w.name+":new", 1)
	undone.AddFloat(w.name+":float", 1)
	undone.AddFloat(w.name+":fresh", 1)
	undone.Push(w.name+":list", 2, []byte("4"))
	undone.Insert(w.name+":int", "a")
	w.fails("Flush of what is undone", undone.Flush(w), scatter.ErrType)
	tally, err := sc.Tally(scatter.TallyConfig{})
	w.must("Tally", err)
	w.must("Add", tally.Add(w.name+":int", 1))
	w.must("Close", tally.Close(w))
}
