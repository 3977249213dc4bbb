package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/expiry"
)

const (
	readHashes = 1000 // that gets choose from
	readFields = 10   // of each
	fieldValue = "sixteen bytes at"
)

func expiryRows() []row {
	return []row{
		{name: "expiry get, 50 goroutines", unit: "gets/s", sides: []side{
			{name: "expiry", figure: expiryGets},
			{name: "plain HGET", goal: "at least 0.33", figure: plainGets},
		}},
		{name: "expiry overdue p99, 10k hashes, 300 expiries/s, 0.3% of 5k/s", unit: "ms", sides: []side{
			{name: "reap job", figure: overdueP99((*expiry.Hashes).ReapJob)},
			{name: "uniform sampling", goal: "at most 1000 ms", figure: overdueP99((*expiry.Hashes).SampleJob)},
		}},
		{name: "expiry the same: overdue at most", unit: "fields", sides: []side{
			{name: "reap job", figure: overdueMost((*expiry.Hashes).ReapJob)},
			{name: "uniform sampling", figure: overdueMost((*expiry.Hashes).SampleJob)},
		}},
		memoryRow("expiry memory, 400 hashes of 1000 fields", 400, 1000),
		memoryRow("expiry memory, 2000 hashes of 100 fields", 2000, 100),
		{name: "expiry reap of one hash, 1000 writes/s on it", unit: "fields/s", sides: []side{
			{name: "reap job", figure: throughput(reapJob)},
			{name: "WATCH and MULTI, 5 fields", figure: throughput(watchReap(5))},
			{name: "WATCH and MULTI, 100 fields", figure: throughput(watchReap(100))},
		}},
		{name: "expiry slices of that which are not aborted", unit: "%", sides: []side{
			{name: "reap job", figure: undisturbed(reapJob)},
			{name: "WATCH and MULTI, 5 fields", figure: undisturbed(watchReap(5))},
			{name: "WATCH and MULTI, 100 fields", figure: undisturbed(watchReap(100))},
		}},
	}
}

// freshHashes empties the server and returns a namespace of hashes on it.
func freshHashes(ctx context.Context, s setup, cfg expiry.HashesConfig) (*expiry.Hashes, error) {
	if err := empty(ctx, s); err != nil {
		return nil, err
	}
	return expiry.OpenHashes(ctx, s.client, "bench", cfg)
}

func hashName(i int) string  { return "hash:" + strconv.Itoa(i) }
func fieldName(i int) string { return fmt.Sprintf("field:%07d", i) }

// fieldsOf returns n fields with their values.
func fieldsOf(n int) map[string][]byte {
	fields := make(map[string][]byte, n)
	for i := range n {
		fields[fieldName(i)] = []byte(fieldValue)
	}
	return fields
}

// scaled returns a size for sides that run for a second or longer, and less for
// shorter ones.
func scaled(n int, s setup) int {
	return max(1, int(float64(n)*min(1, s.time.Seconds())))
}

// dealt calls do with each number below n, from all goroutines, in about their order.
func dealt(n int, do func(i int) error) error {
	var next atomic.Int64
	return each(func() error {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	})
}

func expiryGets(ctx context.Context, s setup) (float64, error) {
	h, err := freshHashes(ctx, s, expiry.HashesConfig{})
	if err != nil {
		return 0, err
	}
	fields := fieldsOf(readFields)
	if err := dealt(readHashes, func(i int) error {
		_, err := h.SetMany(ctx, hashName(i), fields, expiry.SetConfig{TTL: ttl})
		return err
	}); err != nil {
		return 0, err
	}
	return concurrently(s, func(int) error {
		_, _, err := h.Get(ctx, hashName(rand.IntN(readHashes)), fieldName(rand.IntN(readFields)))
		return err
	})
}

func plainGets(ctx context.Context, s setup) (float64, error) {
	if err := empty(ctx, s); err != nil {
		return 0, err
	}
	if err := dealt(readHashes, func(i int) error { return plainHash(ctx, s, hashName(i), readFields) }); err != nil {
		return 0, err
	}
	c := s.client
	return concurrently(s, func(int) error {
		return c.Do(ctx, c.B().Hget().Key(hashName(rand.IntN(readHashes))).Field(fieldName(rand.IntN(readFields))).Build()).Error()
	})
}

// plainHash stores a hash without anything that makes its fields expire.
func plainHash(ctx context.Context, s setup, key string, fields int) error {
	hset := s.client.B().Hset().Key(key).FieldValue()
	for i := range fields {
		hset = hset.FieldValue(fieldName(i), fieldValue)
	}
	return s.client.Do(ctx, hset.Build()).Error()
}

// memoryRow compares what a field takes.
func memoryRow(name string, hashes, fields int) row {
	return row{name: name, unit: "bytes a field", sides: []side{
		{name: "expiry", figure: memoryOf(hashes, fields, func(ctx context.Context, s setup) (func(i int) error, error) {
			h, err := freshHashes(ctx, s, expiry.HashesConfig{})
			all := fieldsOf(fields)
			return func(i int) error {
				_, err := h.SetMany(ctx, hashName(i), all, expiry.SetConfig{TTL: ttl})
				return err
			}, err
		})},
		{name: "plain hash", figure: memoryOf(hashes, fields, func(ctx context.Context, s setup) (func(i int) error, error) {
			return func(i int) error { return plainHash(ctx, s, hashName(i), fields) }, nil
		})},
		{name: "key with TTL", figure: memoryOf(hashes, fields, func(ctx context.Context, s setup) (func(i int) error, error) {
			return func(i int) error {
				sets := make([]rueidis.Completed, fields)
				for j := range sets {
					sets[j] = s.client.B().Set().Key(hashName(i) + ":" + fieldName(j)).Value(fieldValue).Px(ttl).Build()
				}
				return firstError(s.client.DoMulti(ctx, sets...))
			}, nil
		})},
	}}
}

// memoryOf returns how many bytes a field takes of the server's memory.
func memoryOf(hashes, fields int, begin func(context.Context, setup) (func(i int) error, error)) func(context.Context, setup) (float64, error) {
	return func(ctx context.Context, s setup) (float64, error) {
		if err := empty(ctx, s); err != nil {
			return 0, err
		}
		write, err := begin(ctx, s)
		if err != nil {
			return 0, err
		}
		hashes := scaled(hashes, s)
		before, err := usedMemory(ctx, s)
		if err != nil {
			return 0, err
		}
		if err := dealt(hashes, write); err != nil {
			return 0, err
		}
		after, err := usedMemory(ctx, s)
		return float64(after-before) / float64(hashes*fields), err
	}
}

func usedMemory(ctx context.Context, s setup) (int64, error) {
	info, err := s.client.Do(ctx, s.client.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if bytes, ok := strings.CutPrefix(line, "used_memory:"); ok {
			return strconv.ParseInt(strings.TrimSpace(bytes), 10, 64)
		}
	}
	return 0, errors.New("the server does not tell its used_memory")
}
