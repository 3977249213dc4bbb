package grow

import (
	"cmp"
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/replicas"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// ErrUnfit means that a server cannot become a member. It was not changed.
var ErrUnfit = &millrace.Error{Code: "unfit"}

// Examine returns ErrUnfit unless servers can join the partitions that they are given with.
// It changes nothing.
func (c *Config) Examine(ctx context.Context, m *directory.Map, joining map[directory.Member]int) error {
	return c.joining(joining, func(servers []*server) error { return c.fit(ctx, m, servers) })
}

// Prove examines as Examine does, and proves the boot fence of each server by one restart.
func (c *Config) Prove(ctx context.Context, m *directory.Map, joining map[directory.Member]int) error {
	return c.joining(joining, func(servers []*server) error { return c.proveFit(ctx, m, servers) })
}

// joining connects to servers that join partitions.
func (c *Config) joining(joining map[directory.Member]int, do func(servers []*server) error) error {
	var servers []*server
	defer func() {
		for _, s := range servers {
			s.client.Close()
		}
	}()
	for member, partition := range joining {
		s, err := c.connect(member)
		if err != nil {
			return err
		}
		s.partition, s.joins = partition, true
		servers = append(servers, s)
	}
	return do(servers)
}

// proveFit examines all servers, before it restarts any, and after it.
func (c *Config) proveFit(ctx context.Context, m *directory.Map, servers []*server) error {
	c.Report("examining the servers")
	if err := c.fit(ctx, m, servers); err != nil {
		return err
	}
	if err := c.prove(ctx, servers); err != nil {
		return err
	}
	return c.fit(ctx, m, servers) // one may have come back with other data
}

// fit examines servers one by one, and returns ErrUnfit also if two are the same, or one
// is a member already under another address.
func (c *Config) fit(ctx context.Context, m *directory.Map, servers []*server) error {
	runs := map[string]string{} // addresses by run id
	for _, p := range m.Partitions {
		for _, member := range p.Members() {
			runs[member.Run] = member.Addr
		}
	}
	for _, s := range servers {
		if err := s.fit(ctx, members.Identity(m.Fleet, s.partition)); err != nil {
			return err
		}
		if other, ok := runs[s.Run]; ok {
			return s.unfit("Name each server once.", "is the same as that at %s", other)
		}
		runs[s.Run] = s.Addr
	}
	return nil
}

// fit returns ErrUnfit unless the server can become a member: it must be empty except for
// keys of an earlier attempt, with the expected identity, and its policy must not evict
// keys without a TTL. One that joins a partition may have an old copy of it.
func (s *server) fit(ctx context.Context, expected string) error {
	replies, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		b := s.client.B()
		ours := []string{members.IdentityKey, members.FloorKey, members.TagsKey, members.MapKey, replicas.Key(members.Base)}
		replies := s.client.DoMulti(ctx, b.Info().Build(), b.Dbsize().Build(), b.Mget().Key(ours...).Build())
		if retry.Code(replies[1].Error(), "MASTERDOWN") {
			// It is fenced, as it should be, and is opened for these reads.
			copy(replies[1:], s.client.DoMulti(ctx, members.Serve(b, true), b.Dbsize().Build(), b.Mget().Key(ours...).Build(), members.Serve(b, false))[1:3])
		}
		return replies, replies[0].NonRedisError()
	})
	if err != nil {
		return s.failed(ctx, err)
	}
	text, err1 := replies[0].ToString()
	size, err2 := replies[1].AsInt64()
	ours, err3 := replies[2].ToArray()
	if err := cmp.Or(err1, err2, err3); err != nil && (err1 != nil || !members.ParseInfo(text).Cluster) {
		return s.failed(ctx, err)
	}
	info := members.ParseInfo(text)
	if info.Cluster {
		return s.unfit("Start it without cluster-enabled.", "is a member of a Redis Cluster")
	}
	identity, _ := ours[0].ToString()
	for _, value := range ours {
		if !value.IsNil() {
			size--
		}
	}
	switch {
	case identity != "" && identity != expected:
		return s.unfit("If that fleet does not exist any more, or has dropped it, empty the server: REPLICAOF NO ONE, and then FLUSHALL.", "is a member of a fleet already: %s", identity)
	case size > 0 && (!s.joins || identity == ""):
		return s.unfit("Begin with empty servers; docs/FLEET.md says how to move data to a fleet.", "has %s", readable.Count(size, "key"))
	case info.MaxMemory > 0 && strings.HasPrefix(info.Policy, "allkeys-"):
		return s.unfit("Set maxmemory-policy to noeviction or to a volatile-* policy.", "may evict any key: its maxmemory-policy is %s", info.Policy)
	}
	s.Run = info.Run
	return nil
}

func (s *server) unfit(hint, format string, args ...any) error {
	return ErrUnfit.Errorf("the server at "+s.Addr+" "+format, args...).WithHint(hint)
}

// failed returns the caller's error for an error of a call to the server, nil for none.
func (s *server) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return Unavailable(err, "%s does not answer", s.Addr)
}

// Unavailable returns the error for a server that cannot be used, with the next step.
func Unavailable(why error, format string, args ...any) error {
	return members.ErrUnavailable.Errorf(format, args...).Wrap(why).
		WithHint("Start a redis-server there, or give the right address, and repeat the command: it skips what is done.")
}
