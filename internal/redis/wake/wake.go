package wake

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/script"
)

// shortest is the shortest wait: Redis reads a timeout that rounds to zero as none.
const shortest = 10 * time.Millisecond

// grace is how much later than the timeout the answer may come. The client itself has no timeout
// for blocking commands.
const grace = time.Second

// Wait blocks until it takes a token of key, or for the timeout most. It reports whether it
// took one. It returns at once when ctx ends, and soon after the timeout if the server hangs.
//
// A closed client is no error here: it may only have left a master that was replaced. The call
// after the wait returns the error.
func Wait(ctx context.Context, client rueidis.Client, key string, most time.Duration) (bool, error) {
	_, woken, err := Pop(ctx, client, key, most)
	if errors.Is(err, rueidis.ErrClosing) {
		err = nil
	}
	return woken, err
}

// Pop blocks until it takes the first element of a list, or for the timeout most.
func Pop(ctx context.Context, client rueidis.Client, key string, most time.Duration) (element string, ok bool, err error) {
	most = max(most, shortest)
	ctx, cancel := script.Within(script.Losable(ctx), most+grace)
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
