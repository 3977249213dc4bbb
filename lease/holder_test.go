package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// childEnv makes the test binary a process that holds a lease: "do URL name" or "once URL name".
const childEnv = "MILLRACE_TEST_LEASE_HOLDER"

// accept is a resource that keeps the largest fence it has seen and refuses
// smaller ones.
const accept = `
local seen = tonumber(redis.call('GET', KEYS[1]) or 0)
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1`

func write(ctx context.Context, client rueidis.Client, resource string, fence int64) (bool, error) {
	n, err := client.Do(ctx, client.B().Eval().Script(accept).Numkeys(1).Key(resource).Arg(strconv.FormatInt(fence, 10)).Build()).AsInt64()
	if (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && ctx.Err() == nil { // another call ended so, on the same connection, which broke
		return write(ctx, client, resource, fence)
	}
	return n == 1, err
}

// beHolder is a process with a locker.
func beHolder(spec string) error {
	var what, url, name string
	if _, err := fmt.Sscan(spec, &what, &url, &name); err != nil {
		return err
	}
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	options.DisableCache = true
	client, err := rueidis.NewClient(options)
	if err != nil {
		return err
	}
	l, err := New(client, Config{})
	if err != nil {
		return err
	}
	if what == "once" {
		return hangOnce(l, name)
	}
	return holdOn(l, client, name)
}

// hangOnce calls Once and says so, waits in it until its context ends, and then claims a success.
func hangOnce(l *Locker, name string) error {
	ran, err := l.Once(context.Background(), name, time.Second, never, func(ctx context.Context, _ int64) error {
		fmt.Println("running")
		<-ctx.Done()
		return nil
	})
	fmt.Println("ran", ran, errors.Is(err, ErrLost))
	return nil
}

// holdOn acquires the lease, writes, says so, waits for the end of the lease,
// and writes again as a holder would that did not look.
func holdOn(l *Locker, client rueidis.Client, name string) error {
	ctx := context.Background()
	held, err := l.Acquire(ctx, name, 2*time.Second, AcquireConfig{MaxHold: time.Minute})
	if err != nil {
		return err
	}
	accepted, err := write(ctx, client, name, held.Fence)
	fmt.Println("held", accepted, err)
	select {
	case <-held.Context().Done():
	case <-time.After(20 * time.Second):
		return errors.New("the lease does not end")
	}
	cause := context.Cause(held.Context())
	ended := errors.Is(cause, ErrExpired) || errors.Is(cause, ErrLost)
	accepted, err = write(ctx, client, name, held.Fence)
	fmt.Println("ended", ended, accepted, err, errors.Is(held.Release(ctx), ErrLost))
	return nil
}
