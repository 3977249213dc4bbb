package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/shards"
)

const (
	readHashes = 1000 // that gets choose from
	readFields = 10   // of each
	fieldValue = "sixteen bytes at"
)

func hashFigures() []Figure {
	return []Figure{
		{Name: "hash_get", What: "expiry get, 50 goroutines", Unit: "gets/s", Sides: []Side{
			{Name: "expiry", Measure: Rated(expiryGets)},
			{Name: "plain HGET", Goal: AtLeast(0.6), Measure: Rated(plainGets)},
		}},
		{Name: "hash_set", What: "expiry set of a field with a TTL, 50 goroutines", Unit: "sets/s", Sides: []Side{
			{Name: "expiry", Measure: Rated(expirySets(1))},
			{Name: "MULTI, HSET, ZADD, EXEC", Goal: AtLeast(0.5), Measure: Rated(plainSets(1))},
		}},
		{Name: "hash_set_many", What: "expiry set of 10 fields with a TTL, 50 goroutines", Unit: "sets/s", Sides: []Side{
			{Name: "expiry", Measure: Rated(expirySets(readFields))},
			{Name: "MULTI, HSET, ZADD, EXEC", Measure: Rated(plainSets(readFields))},
		}},
		{Name: "hash_overdue_p99", What: "expiry overdue p99, 10k hashes, 300 expiries/s, 0.3% of 5k/s", Unit: "ms", Once: true, Sides: []Side{
			{Name: "reap job", Measure: QuantileOf(0.99, time.Millisecond, overdue(reapIndex))},
			{Name: "uniform sampling", Goal: ValueAtMost(1000), Measure: QuantileOf(0.99, time.Millisecond, overdue(sampleHashes))},
		}},
	}
}

func hashName(i int) string  { return "hash:" + strconv.Itoa(i) }
func fieldName(i int) string { return fmt.Sprintf("field:%07d", i) }

// hashes returns a namespace, which is deleted at the end.
func (b *B) hashes(ctx context.Context, cfg expiry.Config) *expiry.Hashes {
	h := must.Get(expiry.Open(ctx, b.Client, b.Name, cfg))
	b.deleteAfter(func(ctx context.Context) (int, error) { return 0, h.Delete(ctx) })
	return h
}

// filled returns a namespace of hashes that have their fields.
func (b *B) filled(ctx context.Context) *expiry.Hashes {
	h := b.hashes(ctx, expiry.Config{Shards: shards.Default})
	must.Do(Deal(ctx, readHashes, func(ctx context.Context, i int) error {
		_, err := h.SetMany(ctx, hashName(i), someFields(readFields), expiry.SetConfig{TTL: ttl})
		return err
	}))
	return h
}

// someFields are so many fields of a hash.
func someFields(n int) map[string][]byte {
	fields := make(map[string][]byte, n)
	for _, i := range rand.Perm(readFields)[:n] {
		fields[fieldName(i)] = []byte(fieldValue)
	}
	return fields
}

func expiryGets(ctx context.Context, b *B) Op {
	h := b.filled(ctx)
	return func(ctx context.Context, _ int) error {
		_, _, err := h.Get(ctx, hashName(rand.IntN(readHashes)), fieldName(rand.IntN(readFields)))
		return err
	}
}

// expirySets sets so many fields of a hash at once.
func expirySets(fields int) func(context.Context, *B) Op {
	return func(ctx context.Context, b *B) Op {
		h := b.filled(ctx)
		return func(ctx context.Context, _ int) error {
			_, err := h.SetMany(ctx, hashName(rand.IntN(readHashes)), someFields(fields), expiry.SetConfig{TTL: ttl})
			return err
		}
	}
}

func plainGets(ctx context.Context, b *B) Op {
	c, keys := b.Client, b.plainKeys()
	must.Do(Deal(ctx, readHashes, func(ctx context.Context, i int) error {
		hset := c.B().Hset().Key(keys[i]).FieldValue()
		for field, value := range someFields(readFields) {
			hset = hset.FieldValue(field, string(value))
		}
		return c.Do(ctx, hset.Build()).Error()
	}))
	return func(ctx context.Context, _ int) error {
		hget := c.B().Hget().Key(keys[rand.IntN(readHashes)]).Field(fieldName(rand.IntN(readFields))).Build()
		return c.Do(ctx, hget).Error()
	}
}

// plainSets sets fields and writes their deadlines into a sorted set, in one transaction, as
// programs do that have no scripts. Nothing reads the sorted set or cleans up.
func plainSets(fields int) func(context.Context, *B) Op {
	return func(_ context.Context, b *B) Op {
		c, keys := b.Client, b.plainKeys()
		return func(ctx context.Context, _ int) error {
			i := rand.IntN(readHashes)
			hset, zadd := c.B().Hset().Key(keys[i]).FieldValue(), c.B().Zadd().Key(keys[readHashes+i]).ScoreMember()
			for field, value := range someFields(fields) {
				hset = hset.FieldValue(field, string(value))
				zadd = zadd.ScoreMember(float64(time.Now().Add(ttl).UnixMilli()), field)
			}
			return FirstError(c.DoMulti(ctx, c.B().Multi().Build(), hset.Build(), zadd.Build(), c.B().Exec().Build()))
		}
	}
}

// plainKeys returns the keys of hashes of which no field expires, with the hash tags of
// the shards, and behind them those of sorted sets beside them. All are deleted at the end.
func (b *B) plainKeys() []string {
	keys := make([]string, 2*readHashes)
	for i := range readHashes {
		keys[i] = fmt.Sprintf("{%s/%d}:plain:%d", b.Name, i%shards.Default, i)
		keys[readHashes+i] = fmt.Sprintf("{%s/%d}:times:%d", b.Name, i%shards.Default, i)
	}
	b.unlinkAfter(keys...)
	return keys
}
