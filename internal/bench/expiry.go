package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/shards"
)

const (
	readHashes = 1000 // that gets choose from
	readFields = 10   // of each
	fieldValue = "sixteen bytes at"
)

func expiryFigures() []Figure {
	return []Figure{
		{Name: "hash_get", What: "expiry get, 50 goroutines", Unit: "gets/s", Sides: []Side{
			{Name: "expiry", Measure: expiryGets},
			{Name: "plain HGET", Goal: AtLeast(0.6), Measure: beside(plainGets, plainHashes)},
		}},
		{Name: "hash_set", What: "expiry set of a field with a TTL, 50 goroutines", Unit: "sets/s", Sides: []Side{
			{Name: "expiry", Measure: expirySets(1)},
			{Name: "HSET and ZADD", Measure: beside(plainSets(1), plainHashes)},
		}},
		{Name: "hash_set_many", What: "expiry set of 10 fields with a TTL, 50 goroutines", Unit: "sets/s", Sides: []Side{
			{Name: "expiry", Measure: expirySets(readFields)},
			{Name: "HSET and ZADD", Measure: beside(plainSets(readFields), plainHashes)},
		}},
		{Name: "hash_overdue_p99", What: "expiry overdue p99, 10k hashes, 300 expiries/s, 0.3% of 5k/s", Unit: "ms", Once: true, Sides: []Side{
			{Name: "reap job", Measure: percentile(99, time.Millisecond, overdue(reapIndex))},
			{Name: "uniform sampling", Goal: ValueAtMost(1000), Measure: percentile(99, time.Millisecond, overdue(sampleHashes))},
		}},
		{Name: "hash_overdue_most", What: "expiry the same: overdue at most", Unit: "fields", Once: true, Sides: []Side{
			{Name: "reap job", Measure: mostOverdue(reapIndex)},
			{Name: "uniform sampling", Measure: mostOverdue(sampleHashes)},
		}},
		{Name: "hash_reap", What: "expiry reap of one hash, 1000 writes/s on it", Unit: "fields/s", Once: true, Sides: []Side{
			{Name: "reap job", Measure: throughput(reapJob)},
			{Name: "WATCH and MULTI, 5 fields", Measure: throughput(watchReap(5))},
			{Name: "WATCH and MULTI, 100 fields", Measure: throughput(watchReap(100))},
		}},
		{Name: "hash_reap_undisturbed", What: "expiry slices of that which are not aborted", Unit: "%", Once: true, Sides: []Side{
			{Name: "reap job", Measure: undisturbed(reapJob)},
			{Name: "WATCH and MULTI, 5 fields", Measure: undisturbed(watchReap(5))},
			{Name: "WATCH and MULTI, 100 fields", Measure: undisturbed(watchReap(100))},
		}},
	}
}

func hashName(i int) string  { return "hash:" + strconv.Itoa(i) }
func fieldName(i int) string { return fmt.Sprintf("field:%07d", i) }

// withHashes has do work on a namespace, and deletes it.
func withHashes(ctx context.Context, p Place, cfg expiry.Config, do func(h *expiry.Hashes) error) (err error) {
	h, err := expiry.Open(ctx, p.Client, p.Name, cfg)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, p.cleanUp(ctx, func(ctx context.Context) (int, error) { return 0, h.Delete(ctx) }))
	}()
	return do(h)
}

// shardKey is what lies in Redis, as docs/WIRE.md has it.
func shardKey(p Place, shard int) string { return fmt.Sprintf("mr:hash:{%s/%d}", p.Name, shard) }

// filled has do work on a namespace of hashes that have their fields.
func filled(ctx context.Context, p Place, do func(h *expiry.Hashes) error) error {
	return withHashes(ctx, p, expiry.Config{Shards: shards.Default}, func(h *expiry.Hashes) error {
		if err := Deal(ctx, readHashes, func(ctx context.Context, i int) error {
			_, err := h.SetMany(ctx, hashName(i), someFields(readFields), expiry.SetConfig{TTL: ttl})
			return err
		}); err != nil {
			return err
		}
		return do(h)
	})
}

// someFields are so many fields of a hash.
func someFields(n int) map[string][]byte {
	fields := make(map[string][]byte, n)
	for _, i := range rand.Perm(readFields)[:n] {
		fields[fieldName(i)] = []byte(fieldValue)
	}
	return fields
}

func expiryGets(ctx context.Context, p Place) (speed float64, err error) {
	err = filled(ctx, p, func(h *expiry.Hashes) error {
		speed, err = p.Rate(ctx, func(ctx context.Context, _ int) error {
			_, _, err := h.Get(ctx, hashName(rand.IntN(readHashes)), fieldName(rand.IntN(readFields)))
			return err
		})
		return err
	})
	return speed, err
}

// expirySets sets so many fields of a hash at once.
func expirySets(fields int) Measure {
	return func(ctx context.Context, p Place) (speed float64, err error) {
		err = filled(ctx, p, func(h *expiry.Hashes) error {
			speed, err = p.Rate(ctx, func(ctx context.Context, _ int) error {
				_, err := h.SetMany(ctx, hashName(rand.IntN(readHashes)), someFields(fields), expiry.SetConfig{TTL: ttl})
				return err
			})
			return err
		})
		return speed, err
	}
}

// plainSets sets fields and writes their deadlines into a sorted set, which nothing reads or
// cleans up.
func plainSets(fields int) Measure {
	return func(ctx context.Context, p Place) (float64, error) {
		c, keys := p.Client, plainHashes(p)
		return p.Rate(ctx, func(ctx context.Context, _ int) error {
			i := rand.IntN(readHashes)
			hset, zadd := c.B().Hset().Key(keys[i]).FieldValue(), c.B().Zadd().Key(keys[readHashes+i]).ScoreMember()
			for field, value := range someFields(fields) {
				hset = hset.FieldValue(field, string(value))
				zadd = zadd.ScoreMember(float64(time.Now().Add(ttl).UnixMilli()), field)
			}
			return FirstError(c.DoMulti(ctx, hset.Build(), zadd.Build()))
		})
	}
}

func plainGets(ctx context.Context, p Place) (float64, error) {
	c, keys := p.Client, plainHashes(p)
	if err := Deal(ctx, readHashes, func(ctx context.Context, i int) error {
		hset := c.B().Hset().Key(keys[i]).FieldValue()
		for j := range readFields {
			hset = hset.FieldValue(fieldName(j), fieldValue)
		}
		return c.Do(ctx, hset.Build()).Error()
	}); err != nil {
		return 0, err
	}
	return p.Rate(ctx, func(ctx context.Context, _ int) error {
		hget := c.B().Hget().Key(keys[rand.IntN(readHashes)]).Field(fieldName(rand.IntN(readFields))).Build()
		return c.Do(ctx, hget).Error()
	})
}

// plainHashes returns the keys of hashes of which no field expires, with the hash
// tags of the shards, and behind them those of sorted sets beside them.
func plainHashes(p Place) []string {
	keys := make([]string, 2*readHashes)
	for i := range readHashes {
		keys[i] = fmt.Sprintf("{%s/%d}:plain:%d", p.Name, i%shards.Default, i)
		keys[readHashes+i] = fmt.Sprintf("{%s/%d}:times:%d", p.Name, i%shards.Default, i)
	}
	return keys
}
