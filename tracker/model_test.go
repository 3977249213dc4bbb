package tracker

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace/millrace/internal/test/redistest"
)

// The model knows the truth, and the tracker's promises about it. It does not know
// the tracker's data.
type model struct {
	t    *testing.T
	tr   *Tracker
	work *table

	step int              // of the history
	live map[string]int   // since which step an identifier has work
	sure map[string]bool  // has work, and was added since it has
	said map[string]int64 // the server's time when it was last added, or had work

	passes   int
	began    int // the step in which the pass under way began
	complete int // that in which the last full pass did

	walks    []*walking
	verifies []*verifying
}

// walking is an add slice that has begun.
type walking struct {
	step  int
	at    place
	page  Page
	asked bool
}

// verifying is a verify slice that has begun.
type verifying struct {
	old     aged
	pending []string
}

var modelIDs = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})

// TestModel runs histories in which work begins and ends, producers add their
// identifiers or fail to, and several slices are under way at once, each interrupted
// before and after its question.
func TestModel(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	rapid.Check(t, func(r *rapid.T) {
		m := &model{
			t: t, work: &table{}, live: map[string]int{}, sure: map[string]bool{}, said: map[string]int64{},
		}
		m.tr = openOn(t, client, redistest.Name(t), Config{Source: m.work, AddRows: 2, VerifyIDs: 2})
		defer func() {
			if _, err := m.tr.Delete(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		r.Repeat(map[string]func(*rapid.T){
			"":              m.check,
			"start":         m.start,
			"move":          m.move,
			"finish":        m.finish,
			"add":           m.add,
			"begin walk":    m.beginWalk,
			"ask walk":      m.askWalk,
			"end walk":      m.endWalk,
			"begin verify":  m.beginVerify,
			"ask verify":    m.askVerify,
			"end verify":    m.endVerify,
			"whole slices":  m.wholeSlices,
			"time goes by":  func(*rapid.T) { tick(t, m.tr) },
			"flush or lose": m.lose,
		})
		m.converge(r)
	})
}

// start queues work, for an identifier that has some or not, in a row before,
// between or behind others.
func (m *model) start(r *rapid.T) {
	id := modelIDs.Draw(r, "id")
	key := rapid.IntRange(1, 200).Draw(r, "key")
	if m.work.taken(key) {
		r.Skip("there is such a row")
	}
	m.work.startAt(key, id)
	if _, has := m.live[id]; !has {
		m.live[id] = m.step
	}
}

// move moves the work of an identifier to another row.
func (m *model) move(r *rapid.T) {
	id := modelIDs.Draw(r, "id")
	key := rapid.IntRange(1, 200).Draw(r, "key")
	if _, has := m.live[id]; !has || m.work.taken(key) {
		r.Skip("it has no work, or there is such a row")
	}
	m.work.move(key, id, rapid.Bool().Draw(r, "leave the rows"))
}

func (m *model) finish(r *rapid.T) {
	id := modelIDs.Draw(r, "id")
	if _, has := m.live[id]; has {
		m.said[id] = max(m.said[id], clock(m.t, m.tr))
	}
	if rapid.Bool().Draw(r, "leave the rows") {
		m.work.close(id)
	} else {
		m.work.finish(id)
	}
	delete(m.live, id)
	delete(m.sure, id)
}

// add adds an identifier that has work, or one whose work is over already.
func (m *model) add(r *rapid.T) {
	id := modelIDs.Draw(r, "id")
	add(m.t, m.tr, id)
	m.said[id] = clock(m.t, m.tr)
	if _, has := m.live[id]; has {
		m.sure[id] = true
	}
}

func (m *model) beginWalk(r *rapid.T) {
	if len(m.walks) == 3 {
		r.Skip("enough are under way")
	}
	at, err := m.tr.place(m.t.Context(), &m.tr.slices)
	if err != nil {
		r.Fatal(err)
	}
	m.walks = append(m.walks, &walking{step: m.step, at: at})
}

func (m *model) askWalk(r *rapid.T) {
	w := draw(r, m.walks)
	page, err := m.tr.page(m.t.Context(), w.at.cursor, 2)
	if err != nil {
		r.Fatal(err)
	}
	w.page, w.asked = page, true
}

func (m *model) endWalk(r *rapid.T) {
	w := draw(r, m.walks)
	if !w.asked {
		r.Skip("it has not asked")
	}
	m.walks = slices.DeleteFunc(m.walks, func(other *walking) bool { return other == w })
	s, err := m.tr.advance(m.t.Context(), &m.tr.slices, w.at, w.page)
	if err != nil {
		r.Fatal(err)
	}
	m.walked(w.step, s)
}

// walked notes the result of an add slice that began in a step.
func (m *model) walked(began int, s step) {
	if !s.moved {
		return
	}
	if s.at.cursor == "" {
		m.began = began
	}
	if s.passes != s.at.passes {
		m.passes++
		m.complete = m.began
	}
}

func (m *model) beginVerify(r *rapid.T) {
	if len(m.verifies) == 3 {
		r.Skip("enough are under way")
	}
	old, err := m.tr.oldest(m.t.Context(), 2)
	if err != nil {
		r.Fatal(err)
	}
	if len(old.ids) > 0 {
		m.verifies = append(m.verifies, &verifying{old: old})
	}
}

func (m *model) askVerify(r *rapid.T) {
	v := draw(r, m.verifies)
	pending, err := m.tr.pending(m.t.Context(), v.old.ids, 2)
	if err != nil {
		r.Fatal(err)
	}
	v.pending = append([]string{}, pending...)
}

func (m *model) endVerify(r *rapid.T) {
	v := draw(r, m.verifies)
	if v.pending == nil {
		r.Skip("it has not asked")
	}
	m.verifies = slices.DeleteFunc(m.verifies, func(other *verifying) bool { return other == v })
	if _, err := m.tr.settle(m.t.Context(), v.old, v.pending); err != nil {
		r.Fatal(err)
	}
}

// wholeSlices runs a slice of each kind without interruption, which overtakes
// those that are under way.
func (m *model) wholeSlices(r *rapid.T) {
	s, err := m.tr.walk(m.t.Context(), &m.tr.slices, 2)
	if err != nil {
		r.Fatal(err)
	}
	m.walked(m.step, s)
	verifyOne(m.t, m.tr)
}

// lose loses all of the record, or one of its keys.
func (m *model) lose(r *rapid.T) {
	if rapid.IntRange(0, 3).Draw(r, "really") > 0 {
		r.Skip("not too often")
	}
	base := baseKey(m.tr.name)
	gone := rapid.SampledFrom([][]string{{base, idsKey(base)}, {base}, {idsKey(base)}}).Draw(r, "what")
	must(m.t, m.tr.run.Client, append([]string{"DEL"}, gone...)...)
	m.passes, m.sure = 0, map[string]bool{}
}

// draw picks one item of a list.
func draw[T any](r *rapid.T, list []T) T {
	if len(list) == 0 {
		r.Skip("none is under way")
	}
	return rapid.SampledFrom(list).Draw(r, "slice")
}

// check compares the answers with the promises.
func (m *model) check(r *rapid.T) {
	m.step++
	ids := tracked(m.t, m.tr)
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		got, found := state(m.t, m.tr, id), slices.Contains(ids, id)
		want := Unknown
		if found {
			want = Queued
		} else if m.passes > 0 {
			want = NotQueued
		}
		if got != want {
			r.Fatalf("Queued(%q) = %v with it tracked: %v and %d full passes, want %v", id, got, found, m.passes, want)
		}
		since, live := m.live[id]
		if m.sure[id] && !found {
			r.Fatalf("%q was added and has work, and is not tracked", id)
		}
		if live && m.passes > 0 && since < m.complete && !found {
			r.Fatalf("%q has work since step %d, and a full pass that began in step %d missed it", id, since, m.complete)
		}
		if last := m.said[id]; found && !live && stamp(m.t, m.tr, id) > last {
			r.Fatalf("%q was said to have work at %d, and did so at %d for the last time", id, stamp(m.t, m.tr, id), last)
		}
	}
}

// converge lets the slices do their work while nothing happens.
func (m *model) converge(r *rapid.T) {
	m.walks, m.verifies = nil, nil
	pass(m.t, m.tr)
	pass(m.t, m.tr)
	for range 4 { // six identifiers, two a slice, and one more
		verifyOne(m.t, m.tr)
	}
	if got, want := tracked(m.t, m.tr), slices.Sorted(maps.Keys(m.live)); !slices.Equal(got, want) {
		r.Fatalf("tracked at rest = %q, want %q", got, want)
	}
}
