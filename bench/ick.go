package main

import (
	"context"
	_ "embed"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/ick"
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

func ickRows() []row {
	single := side{name: "one by one", goal: "at least 3", figure: addSingle}
	return []row{
		{name: "ick add, 50 goroutines", unit: "adds/s", sides: []side{
			{name: "ick", figure: addSingle},
			{name: "bare EVALSHA of ZADD", goal: "at least 0.7", figure: addScript(bareSource)},
			{name: "script with the gem's calls", goal: "at least 1.5", figure: addScript(gemSource)},
		}},
		{name: "ick add, coalesced", unit: "adds/s", sides: []side{
			{name: "ick", figure: addCoalesced}, single,
		}},
		{name: "ick exchange of 1000", unit: "members/s", sides: []side{
			{name: "ick", figure: exchangeIck},
			{name: "loop over members, no tokens", goal: "at least 1", figure: exchangeLoop},
		}},
	}
}

// fresh empties the server and returns an Ick on it.
func fresh(ctx context.Context, s setup) (*ick.Ick, error) {
	if err := empty(ctx, s); err != nil {
		return nil, err
	}
	return ick.New(s.client, "bench", ick.Config{})
}

// mark returns a random document and the time.
func mark() (member string, score float64) {
	return "doc:" + strconv.Itoa(rand.IntN(documents)), float64(time.Now().UnixMicro()) / 1e6
}

func addSingle(ctx context.Context, s setup) (float64, error) {
	k, err := fresh(ctx, s)
	if err != nil {
		return 0, err
	}
	return concurrently(s, func(int) error {
		member, score := mark()
		_, err := k.Add(ctx, ick.Entry{Member: member, Score: score})
		return err
	})
}

func addCoalesced(ctx context.Context, s setup) (float64, error) {
	k, err := fresh(ctx, s)
	if err != nil {
		return 0, err
	}
	adder := k.Adder()
	defer adder.Close()
	return concurrently(s, func(int) error {
		member, score := mark()
		_, err := adder.Add(ctx, ick.Entry{Member: member, Score: score})
		return err
	})
}

func addScript(source string) func(context.Context, setup) (float64, error) {
	lua := rueidis.NewLuaScript(source)
	return func(ctx context.Context, s setup) (float64, error) {
		if err := empty(ctx, s); err != nil {
			return 0, err
		}
		return concurrently(s, func(int) error {
			member, score := mark()
			text := strconv.FormatFloat(score, 'g', -1, 64)
			return lua.Exec(ctx, s.client, []string{"bench"}, []string{text, member}).Error()
		})
	}
}

// stocked returns an Ick with marks to work off.
func stocked(ctx context.Context, s setup) (*ick.Ick, error) {
	k, err := fresh(ctx, s)
	if err != nil {
		return nil, err
	}
	marks := make([]ick.Entry, stock)
	for i, place := range rand.Perm(stock) {
		marks[i] = ick.Entry{Member: "doc:" + strconv.Itoa(i), Score: 1.7e9 + float64(place)/1000}
	}
	_, err = k.Add(ctx, marks...)
	return k, err
}

// exchangeIck works the stock off and returns members a second.
func exchangeIck(ctx context.Context, s setup) (float64, error) {
	k, err := stocked(ctx, s)
	if err != nil {
		return 0, err
	}
	start, token, done := time.Now(), "", []string(nil)
	for {
		r, _, err := k.Exchange(ctx, token, done, batch)
		if err != nil {
			return 0, err
		}
		if len(r.Entries) == 0 {
			return stock / time.Since(start).Seconds(), nil
		}
		token, done = r.Token, r.Members()
	}
}

func exchangeLoop(ctx context.Context, s setup) (float64, error) {
	if _, err := stocked(ctx, s); err != nil {
		return 0, err
	}
	lua := rueidis.NewLuaScript(loopSource)
	start, done := time.Now(), []string(nil)
	for {
		entries, err := lua.Exec(ctx, s.client, []string{"bench"}, append([]string{strconv.Itoa(batch)}, done...)).AsStrSlice()
		if err != nil {
			return 0, err
		}
		if len(entries) == 0 {
			return stock / time.Since(start).Seconds(), nil
		}
		done = done[:0]
		for i := 0; i < len(entries); i += 2 {
			done = append(done, entries[i])
		}
	}
}
