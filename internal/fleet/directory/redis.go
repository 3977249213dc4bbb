package directory

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

const (
	// baseKey is the hash that has the values by their names, each behind the id of its put.
	baseKey = "mr:fleet:{directory}"

	// holdKey is followed by a name that has a holder.
	holdKey = baseKey + ":hold:"

	// noneKey never exists.
	noneKey = baseKey + ":none"
)

// idLength is the length of the id of a put.
const idLength = 12

// Redis is a [Store] in one Redis server of its own, without a failover. Its append-only file is
// written before each reply (appendfsync always), so a restart loses nothing; with the disk the
// directory is lost. It is safe for concurrent use.
type Redis struct{ run *script.Runner }

// tryTimeout is how long one call may take.
const tryTimeout = 2 * time.Second

// Dial returns the directory on the server that option names. It need not be reachable yet.
// Dialer.Timeout and ConnWriteTimeout default to 1 and 2 seconds. Close it.
func Dial(option rueidis.ClientOption) (*Directory, error) {
	if len(option.InitAddress) != 1 || option.Sentinel.MasterSet != "" {
		return nil, millrace.ErrBadArgument.Errorf("a directory in Redis is one server, not %d, nor one that Sentinels choose", len(option.InitAddress)).
			WithHint("Give the address of one server, or use etcd.")
	}
	option = members.Single(option, option.InitAddress[0], time.Second, tryTimeout)
	option.Dialer.KeepAlive = cmp.Or(option.Dialer.KeepAlive, 5*time.Second)
	members.Small(&option) // a thousand processes are connected
	client, err := rueidis.NewClient(option)
	if client == nil { // else it may be reached later
		return nil, fmt.Errorf("the directory's server: %w", err)
	}
	return New(&Redis{&script.Runner{Client: client, Scripts: library, Retry: retry.Policy{Timeout: time.Nanosecond}}}), nil
}

// Close implements Store.
func (r *Redis) Close() { r.run.Client.Close() }

// Get implements Store. A server that takes no writes at the moment refuses the first command of
// a Present read: it may have been made a replica.
func (r *Redis) Get(ctx context.Context, read Read, names ...string) ([]Value, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tryTimeout, ErrSilent)
	defer cancel()
	stored, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisMessage, error) {
		c := r.run.Client
		get := c.B().Hmget().Key(baseKey).Field(names...).Build()
		if read == Any {
			return c.Do(ctx, get).ToArray()
		}
		replies := c.DoMulti(ctx, c.B().Del().Key(noneKey).Build(), get)
		if err := replies[0].Error(); err != nil {
			return nil, err
		}
		return replies[1].ToArray()
	})
	if err != nil {
		return nil, own(ctx, err)
	}
	values := make([]Value, len(names))
	for i, m := range stored {
		if text, err := m.ToString(); err == nil { // else there is none
			// A shorter text is of an older version: Directory refuses it.
			n := min(idLength, len(text))
			values[i] = Value{text[min(n+1, len(text)):], text[:n]}
		}
	}
	return values, nil
}

// Put implements Store.
func (r *Redis) Put(ctx context.Context, revision string, texts ...Text) (bool, error) {
	args := []string{revision, rand.Text()[:idLength]}
	for _, t := range texts {
		args = append(args, t.Name, t.Text)
	}
	reply, err := r.write(ctx, "put", baseKey, args...)
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}

// Hold implements Store.
func (r *Redis) Hold(ctx context.Context, name, holder string, ttl time.Duration) (string, error) {
	reply, err := r.write(ctx, "hold", holdKey+name, holder, strconv.FormatInt(ttl.Milliseconds(), 10))
	if err != nil {
		return "", err
	}
	return reply.Text(), reply.Err()
}

// write runs a script once.
func (r *Redis) write(ctx context.Context, name, key string, args ...string) (*script.Reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tryTimeout, ErrSilent)
	defer cancel()
	reply, err := r.run.Run(ctx, name, key, args...)
	if err = own(ctx, err); retry.Code(err, "OOM") {
		err = millrace.ErrFull.Wrap(err)
	}
	return reply, err
}

// ErrSilent means that a server of the directory did not answer in time.
var ErrSilent = errors.New("the directory does not answer")

// own returns the error of a call under ctx. The client uses errors of contexts also
// when it closes a silent connection; those become ErrSilent.
func own(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return ErrSilent
	case errors.Is(err, rueidis.ErrClosing):
		return ErrClosed
	default:
		return retry.Bare(err)
	}
}
