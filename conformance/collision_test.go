package conformance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/scatter"
)

// TestOneNameForTwo gives an Ick and a value of scatter one name. Both names are keys, as the gem
// and plain Redis commands have them. The second one is refused, writes nothing, and says why;
// the first one works on.
func TestOneNameForTwo(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	values, err := scatter.New([]scatter.Server{{Client: client}}, scatter.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(values.Close)
	keys := func() int { // but the registry's, which is written in the background
		t.Helper()
		all, err := client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		return len(slices.DeleteFunc(all, func(key string) bool { return strings.HasPrefix(key, "mr:registry:") }))
	}
	for kind, write := range map[string]func(s *scatter.Session, name string){
		"counter": func(s *scatter.Session, name string) { s.Add(name, 2) },
		"float":   func(s *scatter.Session, name string) { s.AddFloat(name, 0.5) },
		"list":    func(s *scatter.Session, name string) { s.Push(name, 10, []byte("x")) },
		"set":     func(s *scatter.Session, name string) { s.Insert(name, "x") },
		"scores":  func(s *scatter.Session, name string) { s.Score(name, "x", 1, scatter.Sum) },
	} {
		flush := func(name string) error {
			s := values.Session("")
			write(s, name)
			return s.Flush(t.Context())
		}
		icks := func(name string) *ick.Ick {
			k, err := ick.New(client, name, ick.Config{})
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		t.Run(kind+" first", func(t *testing.T) {
			name := kind + " first"
			if err := flush(name); err != nil {
				t.Fatal(err)
			}
			before, k := keys(), icks(name)
			for what, call := range map[string]func() error{
				"Add": func() error {
					_, err := k.Add(t.Context(), ick.Entry{Member: "a", Score: 1}, ick.Entry{Member: "b", Score: 1})
					return err
				},
				"AddNow":  func() error { _, err := k.AddNow(t.Context(), "a"); return err },
				"Reserve": func() error { _, err := k.Reserve(t.Context(), 1); return err },
				"Delete":  func() error { _, err := k.Delete(t.Context()); return err },
			} {
				err := call()
				if !errors.Is(err, millrace.ErrBroken) {
					t.Errorf("%s = %v, want %v", what, err, millrace.ErrBroken)
				}
			}
			if got := keys(); got != before {
				t.Errorf("keys = %d, want %d", got, before)
			}
			if err := flush(name); err != nil {
				t.Errorf("the %s afterwards: %v", kind, err)
			}
		})
		t.Run("ick before "+kind, func(t *testing.T) {
			name := "ick before " + kind
			k := icks(name)
			if _, err := k.AddNow(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			before := keys()
			if err := flush(name); !errors.Is(err, scatter.ErrType) {
				t.Errorf("flush = %v, want %v", err, scatter.ErrType)
			}
			if got := keys(); got != before {
				t.Errorf("keys = %d, want %d", got, before)
			}
			if r, err := k.Reserve(t.Context(), 1); err != nil || len(r.Entries) != 1 {
				t.Errorf("Reserve = %v, %v, want the mark", r, err)
			}
		})
	}
}

// TestAChannelLeavesACounter deletes a channel. A counter that has the name of one of its Icks
// stays.
func TestAChannelLeavesACounter(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	c, err := ick.NewChannel(client, "c", ick.ChannelConfig{Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Resize(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), client.B().Incrby().Key("c/1").Increment(7).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context()); !errors.Is(err, millrace.ErrBroken) {
		t.Errorf("Delete = %v, want %v", err, millrace.ErrBroken)
	}
	if n, err := client.Do(t.Context(), client.B().Get().Key("c/1").Build()).AsInt64(); n != 7 || err != nil {
		t.Errorf("the counter = %d, %v, want 7", n, err)
	}
	if err := client.Do(t.Context(), client.B().Del().Key("c/1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context()); err != nil {
		t.Errorf("Delete without the counter = %v", err)
	}
}
