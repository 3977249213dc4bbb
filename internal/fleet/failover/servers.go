package failover

import (
	"context"
	"errors"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/members"
	"github.com/millrace/millrace/internal/retry"
)

// Servers is how an agent reaches the members. [Redis] is the one in use; tests
// put a whole simulated fleet in its place. Each call is over when ctx is, and may
// be repeated.
type Servers interface {
	// Look asks a member what it is.
	Look(ctx context.Context, addr string) (Look, error)

	// Fence makes a member a replica of nobody: it takes no writes, and is given none.
	// It returns what the member has then.
	Fence(ctx context.Context, addr string) (Look, error)

	// Lead makes a member take writes, and raises its floor, unless it was started
	// again since it was in that run.
	Lead(ctx context.Context, addr, run string, floor int64) error

	// Follow makes a member a replica of another one as long as that is in that run,
	// and ends its clients' connections.
	Follow(ctx context.Context, addr, master, run string) error

	// Admit has a master in that run let those connect to it who follow it.
	Admit(ctx context.Context, master, run string) error

	// Serve says whether a member that is not linked to a master may be read.
	Serve(ctx context.Context, addr string, unlinked bool) error

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

// Look asks a member what it is.
func (r *Redis) Look(ctx context.Context, addr string) (Look, error) {
	return members.Ask(ctx, r.pool, addr, look)
}

func look(ctx context.Context, c rueidis.Client) (l Look, err error) {
	b := c.B()
	results := c.DoMulti(ctx,
		b.Info().Section("server").Build(),
		b.Info().Section("replication").Build(),
		b.Info().Section("persistence").Build(),
		b.ConfigGet().Parameter("masteruser").Build(),
		ourKeys(b),
	)
	info := map[string]string{}
	for _, section := range results[:3] {
		text, err := section.ToString()
		if err != nil {
			return l, err
		}
		maps.Copy(info, members.Fields(text))
	}
	login, err := results[3].AsStrMap()
	if err != nil {
		return l, err
	}
	l = Look{
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
	if us, err := strconv.ParseInt(info["server_time_usec"], 10, 64); err == nil {
		l.Clock = time.UnixMicro(us)
	}
	offset := "master_repl_offset"
	if !l.Master {
		offset = "slave_repl_offset"
		l.Follows = net.JoinHostPort(info["master_host"], info["master_port"])
		l.FollowsRun = members.FollowedRun(login["masteruser"])
	}
	if l.Offset, err = strconv.ParseInt(info[offset], 10, 64); err != nil {
		return l, err
	}
	// The server tells the first offset that is not of the history before.
	if turned, err := strconv.ParseInt(info["second_repl_offset"], 10, 64); err == nil && turned > 0 {
		l.Turned = turned - 1
	}
	err = l.read(results[4])
	if retry.Code(err, "LOADING") || retry.Code(err, "MASTERDOWN") {
		err = nil // it says what it is, but not what it has
	}
	return l, err
}

// ourKeys asks for what a member has that is the fleet's.
func ourKeys(b rueidis.Builder) rueidis.Completed {
	return b.Mget().Key(directory.IdentityKey, directory.FloorKey).Build()
}

// read takes in the answer to that.
func (l *Look) read(result rueidis.RedisResult) error {
	keys, err := result.ToArray()
	if err != nil {
		return err
	}
	l.Identity, _ = keys[0].ToString()
	floor, _ := keys[1].ToString()
	l.Floor, _ = strconv.ParseInt(floor, 10, 64)
	return nil
}

// Fence makes a member a replica of an address where nobody listens. One that may not
// be read, since it was not in step since it was started, may be for as long as it
// takes to see what it has: that goes in one piece.
func (r *Redis) Fence(ctx context.Context, addr string) (Look, error) {
	return members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) (Look, error) {
		if err := members.Fence(ctx, c); err != nil {
			return Look{}, err
		}
		l, err := look(ctx, c)
		if err != nil || l.Identity != "" {
			return l, err
		}
		results := c.DoMulti(ctx, members.Serve(c.B(), true), ourKeys(c.B()), members.Serve(c.B(), false))
		err = l.read(results[1])
		return l, errors.Join(results[0].Error(), err, results[2].Error())
	})
}

// Serve sets whether a member that is not linked to a master may be read.
func (r *Redis) Serve(ctx context.Context, addr string, unlinked bool) error {
	return r.set(ctx, addr, func(b rueidis.Builder) rueidis.Completed { return members.Serve(b, unlinked) })
}

// Follow makes a member a replica of another one.
func (r *Redis) Follow(ctx context.Context, addr, master, run string) error {
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		return err
	}
	if err := r.Admit(ctx, master, run); err != nil {
		return err
	}
	_, err = members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
		return struct{}{}, members.Follow(ctx, c, host, port, run, r.pool.Secret())
	})
	return err
}

// Admit makes the user by which replicas log in.
func (r *Redis) Admit(ctx context.Context, master, run string) error {
	_, err := members.Ask(ctx, r.pool, master, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
		return struct{}{}, members.Admit(ctx, c, run, r.pool.Secret())
	})
	return err
}

// Lead makes a member take writes. Its floor is raised before the map names it, so
// that no client places a tag by a map that is too old. From now on it is known to be
// whole, and may be read if it is a replica again and not linked yet.
//
// All goes by one connection, which ends with the process: what was started again
// after it was elected, and may have lost its data, is not promoted.
func (r *Redis) Lead(ctx context.Context, addr, run string, floor int64) error {
	_, err := members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
		return struct{}{}, members.InRun(ctx, c, run, func(c rueidis.DedicatedClient) error {
			for _, result := range c.DoMulti(ctx,
				need(c.B(), 0),
				members.Serve(c.B(), true),
				c.B().Replicaof().No().One().Build(),
				c.B().Eval().Script(library.Script("floor").Source()).Numkeys(1).Key(baseKey).Arg(strconv.FormatInt(floor, 10)).Build(),
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
	return r.set(ctx, addr, func(b rueidis.Builder) rueidis.Completed { return need(b, replicas) })
}

func need(b rueidis.Builder, replicas int) rueidis.Completed {
	return b.ConfigSet().ParameterValue().ParameterValue("min-replicas-to-write", strconv.Itoa(replicas)).Build()
}

func (r *Redis) set(ctx context.Context, addr string, build func(b rueidis.Builder) rueidis.Completed) error {
	_, err := members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
		return struct{}{}, c.Do(ctx, build(c.B())).Error()
	})
	return err
}
