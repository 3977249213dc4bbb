package bench

import (
	"context"
	_ "embed"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/registry"
)

//go:embed bare.lua
var bareSource string

//go:embed gem.lua
var gemSource string

//go:embed loop.lua
var loopSource string

const (
	documents = 10_000  // that adds choose from
	batch     = 1000    // of an exchange
	stock     = 100_000 // marks that exchanges work off
)

func ickFigures() []Figure {
	return []Figure{
		{Name: "ick_add", What: "ick add, 50 goroutines", Unit: "adds/s", Sides: []Side{
			{Name: "ick", Measure: Rated(func(_ context.Context, b *B) Op {
				k := b.ick()
				return func(ctx context.Context, _ int) error { return addMark(ctx, k) }
			})},
			{Name: "bare EVALSHA of ZADD", Goal: AtLeast(1.3), Measure: Rated(addBare)},
		}},
		{Name: "ick_add_alone", What: "ick add, 50 goroutines that share no call", Unit: "adds/s", Sides: []Side{
			{Name: "ick", Measure: Rated(addAlone)},
			{Name: "bare EVALSHA of ZADD", Goal: AtLeast(0.75), Measure: Rated(addBare)},
			{Name: "script with the gem's calls", Goal: AtLeast(1), Measure: Rated(func(_ context.Context, b *B) Op {
				return b.addScript(gemSource, b.ick().Name())
			})},
		}},
		{Name: "ick_exchange", What: "ick exchange of 1000", Unit: "members/s", Sides: []Side{
			{Name: "ick", Measure: exchangeIck},
			{Name: "loop over members, no tokens", Goal: AtLeast(1), Measure: exchangeLoop},
		}},
	}
}

// ick returns an Ick, which is deleted at the end. Baselines use the same keys.
func (b *B) ick() *ick.Ick {
	k := must.Get(ick.New(b.Client, b.Name, ick.Config{}))
	b.deleteAfter(k.ForceDelete)
	return k
}

// mark returns a random document and the time.
func mark() (member string, score float64) {
	return "doc:" + strconv.Itoa(rand.IntN(documents)), float64(time.Now().UnixMicro()) / 1e6
}

func addMark(ctx context.Context, k *ick.Ick) error {
	member, score := mark()
	_, err := k.Add(ctx, ick.Entry{Member: member, Score: score})
	return err
}

// addAlone gives each goroutine an Ick value of its own: only calls of one value are shared.
func addAlone(_ context.Context, b *B) Op {
	b.ick()
	var icks [Goroutines]*ick.Ick
	for i := range icks {
		icks[i] = must.Get(ick.New(b.Client, b.Name, ick.Config{}))
	}
	b.settleAfter(b.Client)
	return func(ctx context.Context, goroutine int) error { return addMark(ctx, icks[goroutine]) }
}

// settleAfter waits until a client has written the names it registers, so that a
// deletion that follows is the last write.
func (b *B) settleAfter(c rueidis.Client) {
	b.Defer(func(ctx context.Context) error { registry.Settle(ctx, c); return nil })
}

func addBare(_ context.Context, b *B) Op {
	b.unlinkAfter(b.key("marks"))
	return b.addScript(bareSource, b.key("marks"))
}

func (b *B) addScript(source, key string) Op {
	lua := rueidis.NewLuaScript(source)
	return func(ctx context.Context, _ int) error {
		member, score := mark()
		text := strconv.FormatFloat(score, 'g', -1, 64)
		return lua.Exec(ctx, b.Client, []string{key}, []string{text, member}).Error()
	}
}

func exchangeIck(ctx context.Context, b *B) float64 {
	token, done, k := "", []string(nil), b.ick()
	return exchanges(ctx, b, k, func(ctx context.Context) int {
		r, _, err := k.Exchange(ctx, token, done, batch)
		must.Do(err)
		token, done = r.Token, r.Members()
		return len(done)
	})
}

func exchangeLoop(ctx context.Context, b *B) float64 {
	lua, done, k := rueidis.NewLuaScript(loopSource), []string(nil), b.ick()
	return exchanges(ctx, b, k, func(ctx context.Context) int {
		entries := must.Get(lua.Exec(ctx, b.Client, []string{k.Name()}, append([]string{strconv.Itoa(batch)}, done...)).AsStrSlice())
		done = done[:0]
		for i := 0; i < len(entries); i += 2 {
			done = append(done, entries[i])
		}
		return len(done)
	})
}

// exchanges stocks an Ick and has one exchange after the other work it off until it
// is empty or the time is over. It returns members a second, without the first
// exchange, which has nothing to commit.
func exchanges(ctx context.Context, b *B, k *ick.Ick, exchange func(context.Context) int) float64 {
	calls := context.WithoutCancel(ctx) // none is cut off
	marks := make([]ick.Entry, max(5*batch, b.Scaled(stock)))
	for i, place := range rand.Perm(len(marks)) {
		marks[i] = ick.Entry{Member: "doc:" + strconv.Itoa(i), Score: 1.7e9 + float64(place)/1000}
	}
	must.Get(k.Add(calls, marks...))
	exchange(calls)
	for members, start := 0, time.Now(); ; {
		must.Do(context.Cause(ctx))
		n := exchange(calls)
		members += n
		if n == 0 || time.Since(start) > b.Time {
			return float64(members) / time.Since(start).Seconds()
		}
	}
}
