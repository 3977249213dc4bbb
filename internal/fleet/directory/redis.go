package directory

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

// baseKey is the hash that holds the map: version, epoch, map (its text).
const baseKey = "mr:fleet:{directory}"

// Redis is a directory in a dedicated Redis: a master and replicas. For durability give
// the master two replicas, min-replicas-to-write 1, min-replicas-max-lag 2 and an
// append-only file. An operator or Sentinel can change the master. A server that does not
// answer delays a call by 100 ms if another one does. It is safe for concurrent use.
type Redis struct {
	servers  []*script.Runner
	sentinel bool                 // whether Sentinels choose the master
	master   atomic.Int32         // the server that took the last write
	turn     atomic.Uint32        // the server at which the last Load started
	known    atomic.Pointer[held] // the last map that was received
}

// sentinelRefresh is how often Sentinels are asked for the master, in case a message of
// theirs was missed.
const sentinelRefresh = 5 * time.Second

// Dial returns the directory on the servers that option names: all of them in
// InitAddress, or the Sentinels that watch them, with Sentinel.MasterSet. The servers
// need not be reachable yet; a Sentinel, and the master through it, must be.
// Dialer.Timeout and ConnWriteTimeout default to 1 and 2 seconds. Close it.
func Dial(option rueidis.ClientOption) (*Redis, error) {
	option.DisableCache = true
	option.AlwaysPipelining = true
	option.DisableRetry = true
	if option.ClientSetInfo == nil {
		option.ClientSetInfo = rueidis.DisableClientSetInfo // the users of docs/SECURITY.md may not
	}
	if option.Dialer.Timeout == 0 {
		option.Dialer.Timeout = time.Second
	}
	if option.Dialer.KeepAlive == 0 {
		option.Dialer.KeepAlive = 5 * time.Second // and the time between PINGs of what is idle
	}
	if option.ConnWriteTimeout == 0 {
		option.ConnWriteTimeout = 2 * time.Second
	}
	members.Small(&option) // a thousand processes are connected
	if option.Sentinel.MasterSet != "" {
		if option.Sentinel.TopologyRefreshInterval == 0 {
			option.Sentinel.TopologyRefreshInterval = sentinelRefresh
		}
		client, err := rueidis.NewClient(option)
		if err != nil {
			return nil, fmt.Errorf("the directory's Sentinels: %w", err)
		}
		return &Redis{servers: []*script.Runner{runner(client)}, sentinel: true}, nil
	}
	if len(option.InitAddress) == 0 {
		return nil, ErrNoFleet.Errorf("no address of a directory was given")
	}
	option.ForceSingleClient = true
	d := &Redis{servers: make([]*script.Runner, len(option.InitAddress))}
	errs := make([]error, len(option.InitAddress))
	var dials sync.WaitGroup
	for i, addr := range option.InitAddress {
		dials.Go(func() {
			each := option
			each.InitAddress = []string{addr}
			client, err := rueidis.NewClient(each)
			if client == nil { // else it may be reached later
				errs[i] = err
				return
			}
			d.servers[i] = runner(client)
		})
	}
	dials.Wait()
	if err := errors.Join(errs...); err != nil {
		d.Close()
		return nil, fmt.Errorf("the directory's servers: %w", err)
	}
	return d, nil
}

// runner runs each script once: Ask decides which server is next.
func runner(client rueidis.Client) *script.Runner {
	return &script.Runner{Client: client, Scripts: library, Retry: retry.Policy{Timeout: time.Nanosecond}}
}

// Close closes the connections.
func (d *Redis) Close() {
	for _, s := range d.servers {
		if s != nil {
			s.Client.Close()
		}
	}
}

// Load implements Directory. It asks another server each time, and receives a map that
// it has only once.
func (d *Redis) Load(ctx context.Context) (*Map, error) {
	m, _, err := Ask(ctx, d.servers, int(d.turn.Add(1)), func(ctx context.Context, s *script.Runner) (*Map, error) {
		c := s.Client
		if known := d.known.Load(); known != nil {
			epoch, err := c.Do(ctx, c.B().Hget().Key(baseKey).Field("epoch").Build()).AsInt64()
			if err != nil && !rueidis.IsRedisNil(err) {
				return nil, err
			}
			if epoch == known.Epoch {
				return known.Map, nil
			}
		}
		stored, err := c.Do(ctx, c.B().Hmget().Key(baseKey).Field("epoch", "map").Build()).ToArray()
		switch {
		case err != nil:
			return nil, err
		case stored[0].IsNil():
			return nil, ErrNoFleet
		}
		epoch, failed := stored[0].AsInt64()
		text, err := stored[1].ToString()
		if err = errors.Join(failed, err); err != nil {
			return nil, ErrMap.Wrap(err)
		}
		return parse(epoch, text)
	})
	return m, err
}

// Confirm implements Directory.
func (d *Redis) Confirm(ctx context.Context, epoch int64) (*Map, error) {
	if epoch != 0 {
		if present, err := d.epoch(ctx); err != nil || present == epoch {
			return nil, err
		}
	}
	m, err := d.confirm(ctx, epoch, d.known.Load())
	if errors.Is(err, ErrMap) {
		m, err = d.confirm(ctx, epoch, nil) // the changes are for another map
	}
	if err != nil || m == nil {
		return nil, err
	}
	d.known.Store(m)
	return m.Map, nil
}

// epoch returns the epoch of the present map, 0 if there is none. It does the first step
// of the script of a confirmation at a third of its cost: a write that only the master
// accepts, and then a read.
func (d *Redis) epoch(ctx context.Context) (int64, error) {
	epoch, at, err := Ask(ctx, d.servers, int(d.master.Load()), func(ctx context.Context, s *script.Runner) (int64, error) {
		return script.Prompt(ctx, func(ctx context.Context) (int64, error) {
			c := s.Client
			replies := c.DoMulti(ctx, c.B().Del().Key(baseKey+":none").Build(), c.B().Hget().Key(baseKey).Field("epoch").Build())
			if err := replies[0].Error(); err != nil {
				return 0, err
			}
			epoch, err := replies[1].AsInt64()
			if rueidis.IsRedisNil(err) {
				err = nil
			}
			return epoch, err
		})
	})
	if err == nil {
		d.master.Store(int32(at))
	}
	return epoch, err
}

// confirm runs the script of a confirmation.
func (d *Redis) confirm(ctx context.Context, epoch int64, known *held) (*held, error) {
	var have int64
	if known != nil {
		have = known.Epoch
	}
	reply, _, err := d.write(ctx, "confirm", strconv.FormatInt(epoch, 10), strconv.FormatInt(have, 10))
	if err != nil {
		return nil, err
	}
	stored := reply.Int()
	if !reply.More() {
		switch {
		case reply.Err() != nil || stored == epoch && stored != 0:
			return nil, reply.Err()
		case stored == 0:
			return nil, ErrNoFleet
		}
		return known, nil
	}
	if reply.Text() == "map" {
		text := reply.Text()
		m, err := parse(stored, text)
		return &held{m, Sum(text)}, err
	}
	if known == nil {
		return nil, ErrMap.Wrap(errors.New("changes were sent for no map"))
	}
	m := *known
	for reply.More() && err == nil {
		var text []byte
		var change difference
		if text, err = unpack(reply.Text()); err == nil {
			err = json.Unmarshal(text, &change)
		}
		if err != nil {
			return nil, ErrMap.Wrap(err)
		}
		m, err = change.of(m)
	}
	if err == nil && m.Epoch != stored {
		err = ErrMap.Wrap(fmt.Errorf("the changes end at epoch %d, the map has %d", m.Epoch, stored))
	}
	if err = errors.Join(err, reply.Err()); err == nil {
		err = m.check()
	}
	return &m, err
}

// write runs a script on the server that accepts writes, and returns its index. It asks
// first the server that accepted the last write.
func (d *Redis) write(ctx context.Context, name string, args ...string) (*script.Reply, int, error) {
	reply, at, err := Ask(ctx, d.servers, int(d.master.Load()), func(ctx context.Context, r *script.Runner) (*script.Reply, error) {
		return r.Run(ctx, name, baseKey, args...)
	})
	if err == nil {
		d.master.Store(int32(at))
	}
	return reply, at, err
}

// parse reads the epoch and the map that are stored side by side.
func parse(epoch int64, text string) (*Map, error) {
	m, err := Unpack(text)
	if err == nil && m.Epoch != epoch {
		return nil, ErrMap.Wrap(fmt.Errorf("it is stored as of epoch %d and says %d", epoch, m.Epoch))
	}
	return m, err
}
