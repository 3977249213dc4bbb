package directory

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

var (
	//go:embed confirm.lua
	confirmSource string
	//go:embed change.lua
	changeSource string
	//go:embed hint.lua
	hintSource string
	//go:embed hints.lua
	hintsSource string
)

var (
	confirmScript = script.New("directory.confirm", confirmSource)
	changeScript  = script.New("directory.change", changeSource)
	hintScript    = script.New("directory.hint", hintSource)
	hintsScript   = script.New("directory.hints", hintsSource)
)

// Redis is a directory in a Redis of its own: a master, replicas if it has any.
// Give the master a replica, min-replicas-to-write 1 and an append-only file, and
// it keeps what it was told; who is master may be changed by hand or by Sentinel.
// It is safe for concurrent use.
type Redis struct {
	servers []*script.Runner
	master  atomic.Int32 // the server that took the last write
	turn    atomic.Uint32
}

// Dial returns the directory on the servers that option names: all of them in
// InitAddress, whoever is master; or the Sentinels that watch it, with
// Sentinel.MasterSet. It does not ask them. Close it.
func Dial(option rueidis.ClientOption) (*Redis, error) {
	option.DisableCache = true
	option.AlwaysPipelining = true
	option.DisableRetry = true
	if option.Sentinel.MasterSet != "" {
		client, err := rueidis.NewClient(option)
		if err != nil {
			return nil, fmt.Errorf("the directory's Sentinels: %w", err)
		}
		return &Redis{servers: []*script.Runner{runner(client)}}, nil
	}
	option.ForceSingleClient = true
	d := new(Redis)
	for _, addr := range option.InitAddress {
		each := option
		each.InitAddress = []string{addr}
		// A server that cannot be reached now may be there later.
		client, err := rueidis.NewClient(each)
		if client == nil {
			d.Close()
			return nil, fmt.Errorf("the directory at %s: %w", addr, err)
		}
		d.servers = append(d.servers, runner(client))
	}
	if len(d.servers) == 0 {
		return nil, ErrNoFleet.Saying("no address of a directory was given")
	}
	return d, nil
}

// runner runs each script once: who asks next is up to the Redis.
func runner(client rueidis.Client) *script.Runner {
	return &script.Runner{Client: client, Retry: retry.Policy{Patience: time.Nanosecond}}
}

// Close closes the connections.
func (d *Redis) Close() {
	for _, s := range d.servers {
		s.Client.Close()
	}
}

// Load returns the map from one server after the other.
func (d *Redis) Load(ctx context.Context) (m *Map, err error) {
	from := d.turn.Add(1)
	for i := range d.servers {
		c := d.servers[(int(from)+i)%len(d.servers)].Client
		var stored []rueidis.RedisMessage
		stored, err = script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisMessage, error) {
			return c.Do(ctx, c.B().Hmget().Key(baseKey).Field("epoch", "map").Build()).ToArray()
		})
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
		case stored[1].IsNil():
			err = ErrNoFleet
		default:
			return parse(stored[1])
		}
	}
	return nil, err
}

// Confirm asks the server that takes writes.
func (d *Redis) Confirm(ctx context.Context, epoch int64) (*Map, error) {
	reply, err := d.write(ctx, confirmScript, strconv.FormatInt(epoch, 10))
	if err != nil {
		return nil, err
	}
	parts, err := reply.ToArray()
	if err != nil {
		return nil, err
	}
	switch len(parts) {
	case 2:
		return parse(parts[1])
	default:
		if present, err := parts[0].AsInt64(); err != nil || present == epoch && epoch != 0 {
			return nil, err
		}
		return nil, ErrNoFleet
	}
}

// Change replaces the map.
func (d *Redis) Change(ctx context.Context, epoch int64, next *Map) error {
	if err := next.check(); err != nil {
		return err
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return retry.Policy{}.Do(ctx, func(int) error { return d.change(ctx, epoch, next.Epoch, string(text)) })
}

// change tries once. A master with replicas has one confirm that it has the map.
func (d *Redis) change(ctx context.Context, epoch, next int64, text string) error {
	// To find the master, and to know whether it has replicas.
	if _, err := d.write(ctx, confirmScript, strconv.FormatInt(epoch, 10)); err != nil {
		return err
	}
	c := d.servers[d.master.Load()].Client
	role, err := c.Do(ctx, c.B().Role().Build()).ToArray()
	if err != nil {
		return err
	}
	commands := []rueidis.Completed{c.B().Eval().Script(changeScript.Source()).Numkeys(1).Key(baseKey).
		Arg(strconv.FormatInt(epoch, 10), strconv.FormatInt(next, 10), text).Build()}
	replicas, err := role[len(role)-1].ToArray()
	if err == nil && len(replicas) > 0 {
		commands = append(commands, c.B().Wait().Numreplicas(1).Timeout(waitForReplica.Milliseconds()).Build())
	}
	results := c.DoMulti(ctx, commands...)
	changed, err := results[0].AsIntSlice()
	if err != nil {
		return err
	}
	if changed[0] == 0 {
		return ErrConflict.Saying("the map has epoch %d by now, not %d", changed[1], epoch)
	}
	if len(results) == 2 {
		if have, err := results[1].AsInt64(); err != nil || have == 0 {
			return ErrUnconfirmed.With(err)
		}
	}
	return nil
}

// waitForReplica is how long a change waits for a replica of the directory.
const waitForReplica = time.Second

// Hint remembers a hint.
func (d *Redis) Hint(ctx context.Context, hint Hint) error {
	_, err := d.write(ctx, hintScript, hint.Addr+" "+hint.Reporter, strconv.FormatInt(HintLife.Milliseconds(), 10))
	return err
}

// Hints returns the hints.
func (d *Redis) Hints(ctx context.Context) ([]Hint, error) {
	reply, err := d.write(ctx, hintsScript)
	if err != nil {
		return nil, err
	}
	texts, err := reply.AsStrSlice()
	if err != nil {
		return nil, err
	}
	hints := make([]Hint, len(texts))
	for i, text := range texts {
		cut := strings.LastIndexByte(text, ' ')
		if cut < 0 {
			continue
		}
		hints[i] = Hint{Addr: text[:cut], Reporter: text[cut+1:]}
	}
	return hints, nil
}

// write runs a script on the server that took the last write, and on the others if
// that does not.
func (d *Redis) write(ctx context.Context, s *script.Script, args ...string) (rueidis.RedisMessage, error) {
	var failed error
	first := int(d.master.Load())
	for i := range d.servers {
		at := (first + i) % len(d.servers)
		reply, err := d.servers[at].Run(ctx, s, baseKey, args...)
		if err == nil {
			d.master.Store(int32(at)) //nolint:gosec // a handful of servers
			return reply, nil
		}
		if ctx.Err() != nil {
			return rueidis.RedisMessage{}, context.Cause(ctx)
		}
		// What the one said that was master is of more interest than READONLY from
		// the others.
		if failed == nil || !retry.Code(err, "READONLY") {
			failed = errors.Join(failed, err)
		}
	}
	return rueidis.RedisMessage{}, failed
}

func parse(stored rueidis.RedisMessage) (*Map, error) {
	text, err := stored.ToString()
	if err != nil {
		return nil, err
	}
	return Parse([]byte(text))
}
