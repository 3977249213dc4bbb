package failover

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet/directory"
	"github.com/millrace/millrace/internal/members"
)

// Servers is how an agent reaches the members. [Redis] is the one in use; tests
// put a whole simulated fleet in its place. Each call is over when ctx is, and may
// be repeated.
type Servers interface {
	// Look asks a member what it is.
	Look(ctx context.Context, addr string) (Look, error)

	// Fence makes a member a replica of nobody: it takes no writes, and is given none.
	Fence(ctx context.Context, addr string) error

	// Lead makes a member take writes, and raises its floor, unless it was started
	// again since it was in that run.
	Lead(ctx context.Context, addr, run string, floor int64) error

	// Follow makes a member a replica of another one, and ends its clients'
	// connections.
	Follow(ctx context.Context, addr, master string) error

	// Need has a master refuse writes while fewer replicas than that are in step.
	Need(ctx context.Context, addr string, replicas int) error
}

// Redis reaches members by their addresses. It is safe for concurrent use. Close
// it.
type Redis struct{ pool *members.Pool }

var _ Servers = (*Redis)(nil)

// NewRedis returns the way to members that are connected to as option says: user,
// password, TLS. Its addresses are not used. Its Dialer.Timeout and ConnWriteTimeout
// default to 1 second.
func NewRedis(option rueidis.ClientOption) *Redis {
	return &Redis{members.New(option, time.Second)}
}

// Close closes the connections.
func (r *Redis) Close() { r.pool.Close() }

// do sends commands to a member and returns the first error among its answers.
func (r *Redis) do(ctx context.Context, addr string, build func(b rueidis.Builder) []rueidis.Completed) ([]rueidis.RedisResult, error) {
	return members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) ([]rueidis.RedisResult, error) {
		results := c.DoMulti(ctx, build(c.B())...)
		for _, result := range results {
			if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
				return nil, err
			}
		}
		return results, nil
	})
}

// Look asks a member what it is.
func (r *Redis) Look(ctx context.Context, addr string) (Look, error) {
	results, err := r.do(ctx, addr, func(b rueidis.Builder) []rueidis.Completed {
		return []rueidis.Completed{
			b.Info().Section("server").Build(),
			b.Info().Section("replication").Build(),
			b.Info().Section("persistence").Build(),
			b.Mget().Key(directory.IdentityKey, directory.FloorKey).Build(),
		}
	})
	if err != nil {
		return Look{}, err
	}
	info := map[string]string{}
	for _, section := range results[:3] {
		text, err := section.ToString()
		if err != nil {
			return Look{}, err
		}
		maps.Copy(info, fields(text))
	}
	keys, err := results[3].ToArray()
	if err != nil {
		return Look{}, err
	}
	l := Look{
		Master:  info["role"] == "master",
		Linked:  info["master_link_status"] == "up",
		Loading: info["loading"] == "1",
		Copying: info["master_sync_in_progress"] == "1",
		History: info["master_replid"],
		Before:  info["master_replid2"],
		Run:     info["run_id"],
	}
	for name, value := range info {
		// A replica that has got its copy counts from its first acknowledgement on.
		if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online") && !strings.Contains(value, "offset=0,") {
			l.InStep++
		}
	}
	l.Identity, _ = keys[0].ToString()
	floor, _ := keys[1].ToString()
	l.Floor, _ = strconv.ParseInt(floor, 10, 64)
	offset := "master_repl_offset"
	if !l.Master {
		offset = "slave_repl_offset"
		l.Follows = net.JoinHostPort(info["master_host"], info["master_port"])
	}
	if l.Offset, err = strconv.ParseInt(info[offset], 10, 64); err != nil {
		return Look{}, err
	}
	// The server tells the first offset that is not of the history before.
	if turned, err := strconv.ParseInt(info["second_repl_offset"], 10, 64); err == nil && turned > 0 {
		l.Turned = turned - 1
	}
	return l, nil
}

func fields(info string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}

// deadHost and deadPort are where nobody listens.
const deadHost, deadPort = "127.0.0.1", "1"

// Fence makes a member a replica of an address where nobody listens.
func (r *Redis) Fence(ctx context.Context, addr string) error {
	return r.replicaOf(ctx, addr, deadHost, deadPort)
}

// Follow makes a member a replica of another one.
func (r *Redis) Follow(ctx context.Context, addr, master string) error {
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		return err
	}
	return r.replicaOf(ctx, addr, host, port)
}

// replicaOf changes whom a member follows and ends its clients' connections, in
// one step: no client's write comes in between.
func (r *Redis) replicaOf(ctx context.Context, addr, host, port string) error {
	_, err := r.do(ctx, addr, func(b rueidis.Builder) []rueidis.Completed {
		return []rueidis.Completed{
			b.Multi().Build(),
			b.Arbitrary("REPLICAOF", host, port).Build(),
			b.Arbitrary("CLIENT", "KILL", "TYPE", "normal").Build(),
			b.Exec().Build(),
		}
	})
	return err
}

// Lead makes a member take writes. Its floor is raised before the map names it, so
// that no client places a tag by a map that is too old.
//
// All goes by one connection, which ends with the process: what was started again
// after it was elected, and may have lost its data, is not promoted. Replicas that
// follow it by its address would copy it.
func (r *Redis) Lead(ctx context.Context, addr, run string, floor int64) error {
	_, err := members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
		return struct{}{}, c.Dedicated(func(c rueidis.DedicatedClient) error {
			text, err := c.Do(ctx, c.B().Info().Section("server").Build()).ToString()
			if err != nil {
				return err
			}
			if now := fields(text)["run_id"]; now != run {
				return fmt.Errorf("%s was started again", addr)
			}
			for _, result := range c.DoMulti(ctx,
				c.B().ConfigSet().ParameterValue().ParameterValue("min-replicas-to-write", "0").Build(),
				c.B().Replicaof().No().One().Build(),
				c.B().Set().Key(directory.FloorKey).Value(strconv.FormatInt(floor, 10)).Build(),
			) {
				if err := result.Error(); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return err
}

// Need sets min-replicas-to-write.
func (r *Redis) Need(ctx context.Context, addr string, replicas int) error {
	_, err := r.do(ctx, addr, func(b rueidis.Builder) []rueidis.Completed {
		return []rueidis.Completed{
			b.ConfigSet().ParameterValue().ParameterValue("min-replicas-to-write", strconv.Itoa(replicas)).Build(),
		}
	})
	return err
}
