package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/connect"
)

func memoryFigures() []Figure {
	return []Figure{
		memoryFigure("expiry memory, 400 hashes of 1000 fields", 400, 1000),
		memoryFigure("expiry memory, 2000 hashes of 100 fields", 2000, 100),
	}
}

// memoryFigure compares what a field takes.
func memoryFigure(what string, hashes, fields int) Figure {
	all := make(map[string][]byte, fields)
	for i := range fields {
		all[fieldName(i)] = []byte(fieldValue)
	}
	return Figure{What: what, Unit: "bytes a field", Sides: []Side{
		{Name: "expiry", Measure: memoryOf(hashes, fields, func(ctx context.Context, c rueidis.Client) (func(ctx context.Context, i int) error, error) {
			h, err := expiry.Open(ctx, c, "bench", expiry.Config{})
			return func(ctx context.Context, i int) error {
				_, err := h.SetMany(ctx, hashName(i), all, expiry.SetConfig{TTL: ttl})
				return err
			}, err
		})},
		{Name: "plain hash", Measure: memoryOf(hashes, fields, func(_ context.Context, c rueidis.Client) (func(ctx context.Context, i int) error, error) {
			return func(ctx context.Context, i int) error {
				hset := c.B().Hset().Key(hashName(i)).FieldValue()
				for j := range fields {
					hset = hset.FieldValue(fieldName(j), fieldValue)
				}
				return c.Do(ctx, hset.Build()).Error()
			}, nil
		})},
		{Name: "key with TTL", Measure: memoryOf(hashes, fields, func(_ context.Context, c rueidis.Client) (func(ctx context.Context, i int) error, error) {
			return func(ctx context.Context, i int) error {
				sets := make(rueidis.Commands, fields)
				for j := range sets {
					sets[j] = c.B().Set().Key(hashName(i) + ":" + fieldName(j)).Value(fieldValue).Px(ttl).Build()
				}
				return FirstError(c.DoMulti(ctx, sets...))
			}, nil
		})},
	}}
}

// memoryOf returns how many bytes a field takes of the memory of a server that has
// nothing else.
func memoryOf(hashes, fields int, begin func(context.Context, rueidis.Client) (func(ctx context.Context, i int) error, error)) Measure {
	return func(ctx context.Context, at Place) (figure float64, err error) {
		own, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, own.Close()) }()
		write, err := begin(ctx, own.Client)
		if err != nil {
			return 0, err
		}
		hashes := at.Scaled(hashes)
		before, err := usedMemory(ctx, own.Client)
		if err != nil {
			return 0, err
		}
		if err := Deal(ctx, hashes, write); err != nil {
			return 0, err
		}
		after, err := usedMemory(ctx, own.Client)
		return float64(after-before) / float64(hashes*fields), err
	}
}

func usedMemory(ctx context.Context, c rueidis.Client) (int64, error) {
	return Info(ctx, c, "memory", "used_memory")
}

// Info returns a number that the server tells of itself.
func Info(ctx context.Context, c rueidis.Client, section, field string) (int64, error) {
	text, err := c.Do(ctx, c.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(line, field+":"); ok {
			return strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		}
	}
	return 0, fmt.Errorf("the server does not tell its %s", field)
}
