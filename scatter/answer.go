package scatter

import (
	"context"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/script"
)

// value is what a server has of a key.
type value struct {
	texts []string
	bad   bool // it is something else
	many  int  // it has so many members, and they are too many to be sent
}

// part is a value that counts, and where it comes from.
type part struct {
	server, key string
	value
}

// keysPerCall is how many keys one call reads at most.
const keysPerCall = 1000

// of reads what a server has of each key: in one call, unless it is much.
func (g *Gather) of(ctx context.Context, srv *server) ([]value, error) {
	var values []value
	for asks := range script.Chunks(g.asks, keysPerCall, func(a ask) int { return len(a.key) }) {
		for next := ""; len(asks) > 0; {
			begun := next != ""
			args := []string{next}
			for i, a := range asks {
				if i == 0 && begun && a.kind == kindList {
					a.most -= len(values[len(values)-1].texts)
				}
				args = append(args, string(a.kind), a.key, strconv.Itoa(a.most))
			}
			reply, err := g.s.on(ctx, srv, func(ctx context.Context, l *link) (*script.Reply, error) {
				return l.Run(ctx, "read", g.s.base, args...)
			})
			if err != nil {
				return nil, err
			}
			for next = reply.Text(); ; asks = asks[1:] {
				if !begun {
					values = append(values, value{})
				}
				values[len(values)-1].add(asks[0].kind, int(reply.Int()), reply.Texts(), begun)
				if begun = false; !reply.More() || len(asks) == 1 {
					break
				}
			}
			if err := reply.Err(); err != nil {
				return nil, err
			}
			if next == "" {
				asks = asks[1:]
			}
		}
	}
	return values, nil
}

// add adds what a call answered, in the words of read.lua. A value of several calls may
// be told the same member again.
func (v *value) add(kind kind, state int, texts []string, again bool) {
	switch {
	case state != 0:
		*v = value{bad: state == -1, many: max(0, state)}
	case !again:
		v.texts = texts
	case kind == kindSet:
		v.texts = append(v.texts, texts...)
		slices.Sort(v.texts)
		v.texts = slices.Compact(v.texts)
	case kind == kindScores:
		v.texts = latest(append(v.texts, texts...))
	default:
		v.texts = append(v.texts, texts...)
	}
}

// latest leaves each member once, with the score that comes last.
func latest(pairs []string) []string {
	at := make(map[string]int, len(pairs)/2)
	kept := pairs[:0]
	for i := 0; i+1 < len(pairs); i += 2 {
		if j, known := at[pairs[i]]; known {
			kept[j+1] = pairs[i+1]
			continue
		}
		at[pairs[i]] = len(kept)
		kept = append(kept, pairs[i], pairs[i+1])
	}
	return kept
}
