package pinned

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// keyModel is a namespace as its documentation describes it. No time passes in
// it: a value lives for hours, and when its time is to be over, a history says so,
// to the model and, past the library, to the server.
type keyModel struct {
	alive  map[string]keyValue
	claims map[string]string // by key, those with which Set stores
	count  Stats             // but for those reaped, which writes do, too
}

type keyValue struct {
	text  string
	hours int
}

// TestKeyModel compares the library with the model on random histories.
func TestKeyModel(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	names := []string{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(r *rapid.T) {
		k := openOn(t, client, redistest.Name(t), Config{Shards: 2})
		m := &keyModel{alive: map[string]keyValue{}, claims: map[string]string{}}
		var claims []string // all that were ever made
		ctx := t.Context()
		check := func(what string, got, want any, err error) {
			if err != nil || got != want {
				r.Fatalf("%s = %v, %v, want %v", what, got, err, want)
			}
		}
		name := func() string { return rapid.SampledFrom(names).Draw(r, "name") }
		r.Repeat(map[string]func(*rapid.T){
			"set": func(r *rapid.T) {
				key, v := name(), keyValue{rapid.StringN(0, 3, 9).Draw(r, "value"), rapid.IntRange(1, 9).Draw(r, "hours")}
				cfg := SetConfig{IfNone: rapid.Bool().Draw(r, "none")}
				cfg.IfExist = !cfg.IfNone && rapid.Bool().Draw(r, "exist")
				if len(claims) > 0 && cfg == (SetConfig{}) && rapid.Bool().Draw(r, "with a claim") {
					cfg.Claim = rapid.SampledFrom(claims).Draw(r, "claim")
				}
				_, there := m.alive[key]
				want := (!cfg.IfNone || !there) && (!cfg.IfExist || there) && (cfg.Claim == "" || cfg.Claim == m.claims[key])
				got, err := k.Set(ctx, key, []byte(v.text), time.Duration(v.hours)*time.Hour, cfg)
				check("Set", got, want, err)
				if want {
					m.alive[key] = v
					delete(m.claims, key)
					m.count.Set++
				}
			},
			"claim": func(*rapid.T) {
				key := name()
				claim, value, _, err := k.Claim(ctx, key, time.Hour)
				check("the value with the claim", string(value), m.alive[key].text, err)
				m.claims[key] = claim
				claims = append(claims, claim)
			},
			"expire": func(r *rapid.T) {
				key, hours := name(), rapid.IntRange(1, 9).Draw(r, "hours")
				v, there := m.alive[key]
				got, err := k.Expire(ctx, key, time.Duration(hours)*time.Hour)
				check("Expire", got, there, err)
				if there {
					v.hours = hours
					m.alive[key] = v
				}
			},
			"delete": func(r *rapid.T) {
				keys := rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(r, "names")
				want := 0
				for _, key := range keys {
					if _, there := m.alive[key]; there {
						want++
						delete(m.alive, key)
					}
					delete(m.claims, key)
				}
				got, err := k.Remove(ctx, keys...)
				check("Delete", got, want, err)
				m.count.Deleted += int64(want)
			},
			"its time is over": func(*rapid.T) {
				key := name()
				if _, there := m.alive[key]; there {
					keyOver(t, k, key)
					delete(m.alive, key)
				}
			},
			"the index lags and is reaped": func(*rapid.T) {
				key := name()
				if _, there := m.alive[key]; !there {
					return
				}
				keyIndex(t, k, key, time.Now().Add(-time.Minute))
				if _, err := k.Jobs()[0].Slice(ctx); err != nil {
					r.Fatal(err)
				}
			},
			"reap": func(r *rapid.T) {
				s, err := k.Stats(ctx)
				if err != nil {
					r.Fatal(err)
				}
				want := millrace.Idle
				if s.Overdue > 0 {
					want = millrace.Worked
				}
				got, err := k.Jobs()[0].Slice(ctx)
				check("reap", got, want, err)
				after, err := k.Stats(ctx)
				check("overdue after reaping", after.Overdue, 0, err)
				check("reaped", after.Reaped, s.Reaped+int64(s.Overdue), nil)
			},
			"": func(*rapid.T) {
				many, err := k.GetMany(ctx, names...)
				check("found by GetMany", len(many), len(m.alive), err)
				for _, key := range names {
					check("the value of "+key, string(many[key]), m.alive[key].text, nil)
				}
				key := name()
				value, ttl, err := k.Get(ctx, key)
				if v, there := m.alive[key]; there {
					check("the value", string(value), v.text, err)
					check("its hours", int((ttl+time.Minute)/time.Hour), v.hours, nil)
				} else {
					check("no value", errors.Is(err, millrace.ErrNotFound), true, nil)
				}
				s, err := k.Stats(ctx)
				check("values and claims", s.Keys, len(m.alive)+len(m.claims), err)
				check("names", len(namesOf(t, k)), len(m.alive)+s.Overdue, nil)
				check("counters", [2]int64{s.Set, s.Deleted}, [2]int64{m.count.Set, m.count.Deleted}, nil)
			},
		})
		if _, err := k.Remove(ctx, slices.Clone(names)...); err != nil {
			r.Fatal(err)
		}
	})
}
