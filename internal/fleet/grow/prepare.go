package grow

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/replicas"
	"github.com/millrace/millrace/internal/redis/retry"
)

// server is a future member.
type server struct {
	directory.Member

	partition int  // of which it is to be a member
	joins     bool // whether the partition exists, so that the server's data of it is replaced
	client    rueidis.Client
	secret    string // see members.Login
}

func (c *Config) connect(m directory.Member) (*server, error) {
	client, err := rueidis.NewClient(members.Single(c.Option, m.Addr, 5*time.Second, time.Second))
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, Unavailable(err, "%s cannot be reached", m.Addr)
	}
	return &server{Member: m, client: client, secret: c.Option.Password}, nil
}

// prepare makes servers the members of the partitions of the map m from first on: masters
// that take writes, and replicas in step. It examines all servers before it changes one. It
// writes their runs, histories and boot fences into the map.
func (c *Config) prepare(ctx context.Context, m *directory.Map, first int) error {
	partitions := m.Partitions[first:]
	made := make([][]*server, len(partitions))
	defer func() {
		for _, s := range slices.Concat(made...) {
			s.client.Close()
		}
	}()
	var servers []*server
	for i, p := range partitions {
		for _, member := range p.Members() {
			s, err := c.connect(member)
			if err != nil {
				return err
			}
			s.partition = p.ID
			made[i], servers = append(made[i], s), append(servers, s)
		}
	}
	if err := c.proveFit(ctx, m, servers); err != nil {
		return err
	}
	c.Report("setting up masters and replicas")
	for i, p := range partitions {
		if err := made[i][0].lead(ctx, m, p); err != nil {
			return err
		}
		for _, replica := range made[i][1:] {
			if err := replica.follow(ctx, made[i][0]); err != nil {
				return err
			}
		}
	}
	for i := range partitions {
		for _, replica := range made[i][1:] {
			c.Report("%s copies %s", replica.Addr, made[i][0].Addr)
			if err := replica.inStep(ctx); err != nil {
				return err
			}
		}
		if len(made[i]) > 1 {
			if err := made[i][0].counts(ctx, made[i][1:], c.Report); err != nil {
				return err
			}
		}
		for _, s := range made[i] {
			if err := s.client.Do(ctx, members.Serve(s.client.B(), true)).Error(); err != nil {
				return s.failed(ctx, err)
			}
		}
		info, err := made[i][0].replication(ctx)
		if err != nil {
			return made[i][0].failed(ctx, err)
		}
		p := &partitions[i]
		p.History, p.Master.Run, p.Master.Boot = info.History, made[i][0].Run, made[i][0].Boot
		for j, replica := range made[i][1:] {
			p.Replicas[j].Run, p.Replicas[j].Boot = replica.Run, replica.Boot
		}
	}
	return nil
}

// lead makes the server the master of a partition.
func (s *server) lead(ctx context.Context, m *directory.Map, p directory.Partition) error {
	c := s.client
	err := c.Do(ctx, c.B().Replicaof().No().One().Build()).Error()
	if err == nil {
		err = c.Do(ctx, c.B().Mset().KeyValue().KeyValue(members.IdentityKey, members.Identity(m.Fleet, p.ID)).
			KeyValue(members.FloorKey, strconv.FormatInt(m.Floor, 10)).Build()).Error()
	}
	return s.failed(ctx, err)
}

// follow makes the server a replica of another one.
func (s *server) follow(ctx context.Context, master *server) error {
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		return err
	}
	if err := members.Admit(ctx, master.client, master.Run, s.secret); err != nil {
		return master.failed(ctx, err)
	}
	return s.failed(ctx, members.Follow(ctx, s.client, host, port, master.Run, s.secret))
}

// replication returns the replication section of the server's INFO.
func (s *server) replication(ctx context.Context) (members.Report, error) {
	text, err := s.client.Do(ctx, s.client.B().Info().Section("replication").Build()).ToString()
	return members.ParseInfo(text), err
}

// inStep waits until the replica has a copy, and its master streams writes to it.
func (s *server) inStep(ctx context.Context) error {
	for {
		info, err := s.replication(ctx)
		switch {
		case err != nil && !retry.Code(err, "LOADING"):
			return s.failed(ctx, err)
		case info.Linked && !info.Copying:
			return nil
		}
		if !retry.Sleep(ctx, 20*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// counts waits until the master counts its replicas, which it does only when it has
// heard of them, up to a second after they are in step: writes that wait for a replica
// would have to wait for that. It should know them by the addresses that the map will
// have, because others do not count.
func (s *server) counts(ctx context.Context, copies []*server, report func(string, ...any)) error {
	var hosts replicas.Names
	among := func(ip, port string) bool {
		return slices.ContainsFunc(copies, func(c *server) bool { return hosts.Match(c.Addr, ip, port) })
	}
	_, found, err := replicas.ConfirmAmong(ctx, s.client, members.Base, among, len(copies), 2*time.Second)
	if err != nil {
		return s.failed(ctx, err)
	}
	if found.Have < len(copies) && len(found.Others) > 0 {
		report("%s knows replicas at %s, which are none of those given, and do not count for WaitReplicas: set their replica-announce-ip and replica-announce-port",
			s.Addr, strings.Join(found.Others, ", "))
	}
	return nil
}
