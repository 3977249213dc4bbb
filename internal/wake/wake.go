package wake

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

// shortest is the least time a wait may take: Redis reads a timeout that rounds
// to zero as for ever.
const shortest = 10 * time.Millisecond

// Wait blocks until key holds a token, which it takes, or until most has
// passed. It reports whether it took one. It returns at once when ctx ends.
func Wait(ctx context.Context, client rueidis.Client, key string, most time.Duration) (bool, error) {
	most = max(most, shortest)
	return script.Prompt(ctx, func(ctx context.Context) (bool, error) {
		err := client.Do(ctx, client.B().Blpop().Key(key).Timeout(most.Seconds()).Build().UnblockOnCancel()).Error()
		if rueidis.IsRedisNil(err) {
			return false, nil
		}
		return err == nil, err
	})
}
