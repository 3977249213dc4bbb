package failover

import (
	"context"
	"embed"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/recovery"
	"github.com/millrace/millrace/internal/redis/replicas"
	"github.com/millrace/millrace/internal/redis/script"
)

// Servers is how an agent reaches the members. [Redis] is the implementation; tests
// simulate a whole fleet. Each call ends with ctx, and can be repeated.
type Servers interface {
	recovery.Servers

	// Probe asks a member for a report.
	Probe(ctx context.Context, addr string) (members.Report, error)

	// Fence stops a member from taking writes and from following a master, and returns its
	// report.
	Fence(ctx context.Context, addr string) (members.Report, error)

	// Lead makes a member take writes, raises its floor to the epoch of a beat and writes the
	// beat, unless it was restarted since it was in that run. If its data is restored, perhaps
	// from an earlier time, it stores that with the floor.
	Lead(ctx context.Context, addr, run string, beat members.Beat, restored bool) error

	// Beat writes a beat into the master of a partition, unless it was restarted since it was in
	// that run, and returns the one that it has then.
	Beat(ctx context.Context, addr, fleet string, partition int, run string, beat members.Beat) (members.Beat, error)

	// Follow makes a member a replica of another one for as long as that is in that run,
	// and ends its clients' connections. A server that has another identity is not changed.
	Follow(ctx context.Context, addr, master, run, identity string) error

	// Admit lets the replicas of a master in that run log in.
	Admit(ctx context.Context, master, run string) error

	// Serve lets a member be read without a link to a master, unless it was restarted since
	// it was in that run.
	Serve(ctx context.Context, addr, run string) error

	// Hide stops a member from being read without a link to a master.
	Hide(ctx context.Context, addr string) error

	// Restart shuts a replica down unless it was restarted since it was in that run. Its
	// supervisor starts it again.
	Restart(ctx context.Context, addr, run string) error

	// Retire takes the identity of a fenced member away, so that it is no longer elected,
	// unless it was restarted since it was in that run.
	Retire(ctx context.Context, addr, run, identity string) error

	// Need sets how many replicas must be in step for a master to take writes.
	Need(ctx context.Context, addr string, replicas int) error

	// Keep stores a copy of the map on the master of a partition, unless that has one as new.
	Keep(ctx context.Context, addr, fleet string, partition int, held members.Copy) error

	// Raise raises the floor of the master of a partition: by a map of a lower epoch no client
	// places a tag there any more. It waits a moment for a replica to have the floor, if
	// there is to be one.
	Raise(ctx context.Context, addr, fleet string, partition int, floor int64, replica bool) error
}

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

// Redis reaches members by their addresses. It is safe for concurrent use. Close it.
type Redis struct{ pool *members.Pool }

var _ Servers = (*Redis)(nil)

// NewRedis returns the connections to members: with user, password and TLS of option, but
// not its addresses. Dialer.Timeout and ConnWriteTimeout default to 1 second.
func NewRedis(option rueidis.ClientOption) *Redis {
	return &Redis{members.New(option, time.Second)}
}

// Close closes the connections.
func (r *Redis) Close() { r.pool.Close() }

// Probe implements Servers.
func (r *Redis) Probe(ctx context.Context, addr string) (members.Report, error) {
	return members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) (members.Report, error) {
		report, err := members.Examine(ctx, c)
		if err != nil || report.Master {
			return report, err
		}
		login, err := c.Do(ctx, c.B().ConfigGet().Parameter("masteruser").Build()).AsStrMap()
		report.FollowsRun = members.FollowedRun(login["masteruser"])
		return report, err
	})
}

// Inspect implements Servers.
func (r *Redis) Inspect(ctx context.Context, addr string) (recovery.Inspection, error) {
	return members.Ask(ctx, r.pool, addr, recovery.Inspect)
}

// Fence implements Servers.
func (r *Redis) Fence(ctx context.Context, addr string) (members.Report, error) {
	return members.Ask(ctx, r.pool, addr, members.FenceAndExamine)
}

// do calls a function with the client of a member.
func (r *Redis) do(ctx context.Context, addr string, call func(ctx context.Context, c rueidis.Client) error) error {
	_, err := members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
		return struct{}{}, call(ctx, c)
	})
	return err
}

// Serve implements Servers.
func (r *Redis) Serve(ctx context.Context, addr, run string) error {
	return r.do(ctx, addr, func(ctx context.Context, c rueidis.Client) error {
		return members.InRun(ctx, c, run, func(c rueidis.DedicatedClient) error {
			return c.Do(ctx, members.Serve(c.B(), true)).Error()
		})
	})
}

// Hide implements Servers.
func (r *Redis) Hide(ctx context.Context, addr string) error {
	return r.do(ctx, addr, func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, members.Serve(c.B(), false)).Error()
	})
}

// Restart implements Servers. It shuts the server down as its supervisor does: with save
// points it saves its data first, and the next start may need no full copy. Saving can take
// longer than ctx: then the server ends later.
func (r *Redis) Restart(ctx context.Context, addr, run string) error {
	return r.do(ctx, addr, func(ctx context.Context, c rueidis.Client) error {
		return members.InRun(ctx, c, run, func(c rueidis.DedicatedClient) error {
			text, err := c.Do(ctx, c.B().Info().Section("replication").Build()).ToString()
			if err != nil {
				return err
			}
			if members.ParseInfo(text).Master {
				return fmt.Errorf("%s is a master", addr)
			}
			err = c.Do(ctx, c.B().Shutdown().Build()).Error()
			if refused, answered := rueidis.IsRedisErr(err); answered {
				return refused
			}
			return nil // no answer: it has ended, or is saving
		})
	})
}

// Retire implements Servers.
func (r *Redis) Retire(ctx context.Context, addr, run, identity string) error {
	return r.do(ctx, addr, func(ctx context.Context, c rueidis.Client) error {
		return members.InRun(ctx, c, run, func(c rueidis.DedicatedClient) error { return members.Retire(ctx, c, identity) })
	})
}

// Follow implements Servers.
func (r *Redis) Follow(ctx context.Context, addr, master, run, identity string) error {
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		return err
	}
	if err := r.Admit(ctx, master, run); err != nil {
		return err
	}
	return r.do(ctx, addr, func(ctx context.Context, c rueidis.Client) error {
		report, _, err := members.Inspect(ctx, c) // also the data of a fenced server
		if err != nil {
			return err
		}
		if report.Identity != "" && report.Identity != identity {
			return fmt.Errorf("it belongs to %s, not to %s, and keeps its data", report.Identity, identity)
		}
		return members.Follow(ctx, c, host, port, run, r.pool.Secret())
	})
}

// Admit implements Servers: it creates the user as which replicas log in.
func (r *Redis) Admit(ctx context.Context, master, run string) error {
	return r.do(ctx, master, func(ctx context.Context, c rueidis.Client) error {
		return members.Admit(ctx, c, run, r.pool.Secret())
	})
}

// Lead implements Servers. It raises the floor before the map names the member, so that
// clients with older maps place no tags there, and stores in the same step that package
// restored has work to do. The member has been examined, so it can be
// read from now on even when it is a replica again without a link.
//
// All commands use one connection, which ends with the process: a member that was
// restarted after its election, and may have lost its data, is not promoted.
func (r *Redis) Lead(ctx context.Context, addr, run string, beat members.Beat, restored bool) error {
	return r.do(ctx, addr, func(ctx context.Context, c rueidis.Client) error {
		return members.InRun(ctx, c, run, func(c rueidis.DedicatedClient) error {
			for _, result := range c.DoMulti(ctx,
				setNeed(c.B(), 0),
				members.Serve(c.B(), true),
				c.B().Replicaof().No().One().Build(),
				c.B().Eval().Script(library.Script("floor").Source()).Numkeys(1).Key(members.Base).
					Arg(strconv.FormatInt(beat.Epoch, 10), strconv.FormatBool(restored), strconv.FormatInt(beat.Count, 10)).Build(),
			) {
				if err := result.Error(); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Beat implements Servers.
func (r *Redis) Beat(ctx context.Context, addr, fleet string, partition int, run string, beat members.Beat) (members.Beat, error) {
	return members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) (members.Beat, error) {
		return beat.Write(ctx, c, fleet, partition, run)
	})
}

// Need implements Servers.
func (r *Redis) Need(ctx context.Context, addr string, replicas int) error {
	return r.do(ctx, addr, func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, setNeed(c.B(), replicas)).Error()
	})
}

func setNeed(b rueidis.Builder, replicas int) rueidis.Completed {
	return b.ConfigSet().ParameterValue().ParameterValue("min-replicas-to-write", strconv.Itoa(replicas)).Build()
}

// Keep implements Servers.
func (r *Redis) Keep(ctx context.Context, addr, fleet string, partition int, held members.Copy) error {
	return r.do(ctx, addr, func(ctx context.Context, c rueidis.Client) error {
		_, err := held.Keep(ctx, c, fleet, partition)
		return err
	})
}

// Raise implements Servers. An agent that replaces the master raises the floor, too: a replica
// that lacks it does no harm.
func (r *Redis) Raise(ctx context.Context, addr, fleet string, partition int, floor int64, replica bool) error {
	return r.do(ctx, addr, func(ctx context.Context, c rueidis.Client) error {
		raise := c.B().Eval().Script(members.Scripts.Script("raise").Source()).Numkeys(1).Key(members.Base).
			Arg(fleet, strconv.Itoa(partition), strconv.FormatInt(floor, 10)).Build()
		var result rueidis.RedisResult
		if replica {
			results, _, _ := replicas.Confirm(ctx, c, members.Base, 1, 500*time.Millisecond, raise)
			result = results[0]
		} else {
			result = c.Do(ctx, raise)
		}
		parts, err := result.AsStrSlice()
		if err == nil && (len(parts) != 2 || parts[0] != "floor") {
			err = members.ErrUnknownServer.Errorf("partition %d of this fleet is expected at %s, and the server has the identity %q", partition, addr, parts[1:])
		}
		return err
	})
}
