package wake

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

// shortest is the least time a wait may take: Redis reads a timeout that rounds
// to zero as for ever.
const shortest = 10 * time.Millisecond

// grace is how much later than asked for the answer may come. The client itself never
// gives up a connection on which somebody blocks.
const grace = time.Second

// Wait blocks until key holds a token, which it takes, or until most has
// passed. It reports whether it took one. It returns at once when ctx ends, and soon
// after most has passed if the server hangs.
//
// That the client is closed is no error here: it may only have left a master that was
// replaced, and whoever looks for work after the wait is told.
func Wait(ctx context.Context, client rueidis.Client, key string, most time.Duration) (bool, error) {
	most = max(most, shortest)
	ctx, cancel := script.Within(ctx, most+grace)
	defer cancel()
	return script.Prompt(ctx, func(ctx context.Context) (bool, error) {
		err := client.Do(ctx, client.B().Blpop().Key(key).Timeout(most.Seconds()).Build().UnblockOnCancel()).Error()
		if rueidis.IsRedisNil(err) || errors.Is(err, rueidis.ErrClosing) {
			return false, nil
		}
		return err == nil, err
	})
}
