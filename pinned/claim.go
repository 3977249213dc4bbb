package pinned

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/millrace/millrace/internal/redis/shards"
)

// claimPrefix precedes the name of a key in the name under which its claim is stored.
const claimPrefix = "\x00"

// Claim is for a value that takes time to compute. It claims the key and returns the value stored
// for it, nil for nothing. A later [Keys.Set] with the claim stores its value unless the key was
// set, removed or claimed meanwhile: then the value may be out of date. A claim lasts for ttl at
// least, and ends with its Set. It takes memory as a value does.
//
// Errors: those of [Keys.Set]; [millrace.ErrBroken] also if the stored text is no value.
func (k *Keys) Claim(ctx context.Context, key string, ttl time.Duration) (claim string, value []byte, left time.Duration, err error) {
	if err := check(key, ttl); err != nil {
		return "", nil, 0, err
	}
	reply, err := k.space.Store(ctx, true, k.reap, "claim_key", key, key, shards.CeilMillis(ttl), rand.Text())
	if err != nil {
		return "", nil, 0, err
	}
	now, claim := reply.Int(), reply.Text()
	stored, there := reply.Maybe()
	if err = reply.Err(); there {
		value, left, there, err = shards.Decode(stored, now, key)
	}
	switch {
	case err != nil:
		return "", nil, 0, err
	case !there:
		return claim, nil, 0, nil
	}
	return claim, value, left, nil
}
