package bench

import (
	"context"
	_ "embed"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/registry"
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
			{Name: "ick", Measure: onIck(addShared)},
			{Name: "bare EVALSHA of ZADD", Goal: AtLeast(1.3), Measure: beside(addBare, bareKeys)},
		}},
		{Name: "ick_add_alone", What: "ick add, 50 goroutines that share no call", Unit: "adds/s", Sides: []Side{
			{Name: "ick", Measure: onIck(addAlone)},
			{Name: "bare EVALSHA of ZADD", Goal: AtLeast(0.75), Measure: beside(addBare, bareKeys)},
			{Name: "script with the gem's calls", Goal: AtLeast(1), Measure: onIck(addAsTheGem)},
		}},
		{Name: "ick_exchange", What: "ick exchange of 1000", Unit: "members/s", Sides: []Side{
			{Name: "ick", Measure: onIck(exchangeIck)},
			{Name: "loop over members, no tokens", Goal: AtLeast(1), Measure: onIck(exchangeLoop)},
		}},
	}
}

// onIck measures on an Ick, and deletes it. Baselines use the same keys.
func onIck(measure func(ctx context.Context, p Place, k *ick.Ick) (float64, error)) Measure {
	return func(ctx context.Context, p Place) (value float64, err error) {
		k, err := ick.New(p.Client, p.Name, ick.Config{})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, p.cleanUp(ctx, k.ForceDelete)) }()
		return measure(ctx, p, k)
	}
}

// mark returns a random document and the time.
func mark() (member string, score float64) {
	return "doc:" + strconv.Itoa(rand.IntN(documents)), float64(time.Now().UnixMicro()) / 1e6
}

func addShared(ctx context.Context, p Place, k *ick.Ick) (float64, error) {
	return p.Rate(ctx, func(ctx context.Context, _ int) error { return addMark(ctx, k) })
}

func addMark(ctx context.Context, k *ick.Ick) error {
	member, score := mark()
	_, err := k.Add(ctx, ick.Entry{Member: member, Score: score})
	return err
}

// addAlone is addShared for goroutines with an Ick value each: only those of one value
// share calls.
func addAlone(ctx context.Context, p Place, k *ick.Ick) (_ float64, err error) {
	icks := make([]*ick.Ick, Goroutines)
	for i := range icks {
		if icks[i], err = ick.New(p.Client, k.Name(), ick.Config{}); err != nil {
			return 0, err
		}
	}
	defer func() { registry.Settle(context.WithoutCancel(ctx), p.Client) }() // so that the deletion has the last word
	return p.Rate(ctx, func(ctx context.Context, goroutine int) error { return addMark(ctx, icks[goroutine]) })
}

func addBare(ctx context.Context, p Place) (float64, error) {
	return addScript(ctx, p, bareSource, p.key("marks"))
}

func addAsTheGem(ctx context.Context, p Place, k *ick.Ick) (float64, error) {
	return addScript(ctx, p, gemSource, k.Name())
}

func bareKeys(p Place) []string { return []string{p.key("marks")} }

func addScript(ctx context.Context, p Place, source, key string) (float64, error) {
	lua := rueidis.NewLuaScript(source)
	return p.Rate(ctx, func(ctx context.Context, _ int) error {
		member, score := mark()
		text := strconv.FormatFloat(score, 'g', -1, 64)
		return lua.Exec(ctx, p.Client, []string{key}, []string{text, member}).Error()
	})
}

func exchangeIck(ctx context.Context, p Place, k *ick.Ick) (float64, error) {
	token, done := "", []string(nil)
	return exchanges(ctx, p, k, func(ctx context.Context) (int, error) {
		r, _, err := k.Exchange(ctx, token, done, batch)
		token, done = r.Token, r.Members()
		return len(done), err
	})
}

func exchangeLoop(ctx context.Context, p Place, k *ick.Ick) (float64, error) {
	lua, done := rueidis.NewLuaScript(loopSource), []string(nil)
	return exchanges(ctx, p, k, func(ctx context.Context) (int, error) {
		entries, err := lua.Exec(ctx, p.Client, []string{k.Name()}, append([]string{strconv.Itoa(batch)}, done...)).AsStrSlice()
		done = done[:0]
		for i := 0; i < len(entries); i += 2 {
			done = append(done, entries[i])
		}
		return len(done), err
	})
}

// exchanges stocks an Ick and has one exchange after the other work it off until it
// is empty or the time is over. It returns members a second, not counting the first
// exchange, which has nothing to commit.
func exchanges(ctx context.Context, p Place, k *ick.Ick, exchange func(context.Context) (int, error)) (float64, error) {
	calls := context.WithoutCancel(ctx) // none is cut off
	marks := make([]ick.Entry, max(5*batch, p.Scaled(stock)))
	for i, place := range rand.Perm(len(marks)) {
		marks[i] = ick.Entry{Member: "doc:" + strconv.Itoa(i), Score: 1.7e9 + float64(place)/1000}
	}
	if _, err := k.Add(calls, marks...); err != nil {
		return 0, err
	}
	if _, err := exchange(calls); err != nil {
		return 0, err
	}
	members, start := 0, time.Now()
	for ctx.Err() == nil {
		n, err := exchange(calls)
		if err != nil {
			return 0, err
		}
		members += n
		if n == 0 || time.Since(start) > p.Time {
			return float64(members) / time.Since(start).Seconds(), nil
		}
	}
	return 0, context.Cause(ctx)
}
