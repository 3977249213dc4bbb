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
	_, woken, err := pop(ctx, client, key, most)
	if errors.Is(err, rueidis.ErrClosing) {
		err = nil
	}
	return woken, err
}

// pop blocks until it can take the first element of a list, or until most has passed.
func pop(ctx context.Context, client rueidis.Client, key string, most time.Duration) (element string, ok bool, err error) {
	most = max(most, shortest)
	ctx, cancel := script.Within(ctx, most+grace)
	defer cancel()
	answer, err := script.Prompt(ctx, func(ctx context.Context) ([]string, error) {
		words, err := client.Do(ctx, client.B().Blpop().Key(key).Timeout(most.Seconds()).Build().UnblockOnCancel()).AsStrSlice()
		if rueidis.IsRedisNil(err) {
			err = nil
		}
		return words, err
	})
	if err != nil || len(answer) != 2 {
		return "", false, err
	}
	return answer[1], true, nil
}
