package etcd

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// Dial opens the fleet whose directory is in etcd. The URL sets Config.Option, and names all
// members of etcd:
//
//	etcd://USER:PASSWORD@HOST:PORT,HOST2:PORT2,HOST3:PORT3/FLEET
//	etcds://...                                                     over TLS
//
// The port defaults to 2379, the fleet's name to "default". Parameters:
//
//	ca=FILE                  the authority that signed the certificate of etcd, instead of the system's
//	cert=FILE&key=FILE       the certificate of this client, read again for each connection
//	skip_verify              accept any certificate
//	member_user=USER         the user of the fleet's members, which are Redis servers
//	member_password=PASSWORD their password
//	member_tls               connect to them over TLS, with the same ca and skip_verify
//
// The error for a bad URL is millrace.ErrBadArgument and contains no password.
func Dial(ctx context.Context, url string, cfg fleet.Config) (*fleet.Fleet, error) {
	dir, option, err := Open(url)
	if err != nil {
		return nil, err
	}
	dir.Owned, cfg.Option = true, option
	return fleet.Open(ctx, dir, cfg)
}

// Open returns the directory that a URL names, see [Dial], and how to connect to the
// members of its fleet. It is for Millrace's own packages. No member of etcd need be
// reachable yet.
func Open(url string) (*fleet.Directory, rueidis.ClientOption, error) {
	a, err := parse(url)
	if err != nil {
		return nil, rueidis.ClientOption{}, err
	}
	dir := directory.New(open(a))
	dir.ViewTTL = finding.LongElection
	return dir, a.servers, nil
}

// store implements directory.Store. It is safe for concurrent use.
type store struct {
	prefix  string
	members []*member
	stop    context.CancelFunc
	last    atomic.Int32  // the member that answered last
	turn    atomic.Uint32 // the member at which the last read of Any began
}

func open(a address) *store {
	ended, stop := context.WithCancel(context.Background())
	s := &store{prefix: "millrace/" + a.fleet + "/", stop: stop}
	for _, endpoint := range a.endpoints {
		s.members = append(s.members, newMember(ended, a, endpoint))
	}
	// A thousand clients should not all begin with the same member.
	s.last.Store(rand.Int32N(int32(len(s.members))))
	s.turn.Store(rand.Uint32())
	return s
}

// Close implements Store.
func (s *store) Close() {
	s.stop()
	for _, m := range s.members {
		m.close()
	}
}

// Get implements Store. A Present read is linearizable. One of Any asks another member each time.
func (s *store) Get(ctx context.Context, read directory.Read, names ...string) ([]directory.Value, error) {
	from := int(s.last.Load())
	var opts []clientv3.OpOption
	if read == directory.Any {
		from = int(s.turn.Add(1) % uint32(len(s.members)))
		opts = append(opts, clientv3.WithSerializable())
	}
	return askFrom(ctx, s, from, func(ctx context.Context, c *clientv3.Client) ([]directory.Value, error) {
		values := make([]directory.Value, len(names))
		if len(names) == 1 { // a range is cheaper than a transaction
			got, err := c.Get(ctx, s.prefix+names[0], opts...)
			if err == nil {
				values[0] = valueOf(got)
			}
			return values, err
		}
		var gets []clientv3.Op
		for _, name := range names {
			gets = append(gets, clientv3.OpGet(s.prefix+name, opts...))
		}
		got, err := c.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return nil, err
		}
		for i, r := range got.Responses {
			values[i] = valueOf((*clientv3.GetResponse)(r.GetResponseRange()))
		}
		return values, nil
	})
}

func valueOf(got *clientv3.GetResponse) directory.Value {
	if len(got.Kvs) == 0 {
		return directory.Value{}
	}
	return directory.Value{Text: string(got.Kvs[0].Value), Revision: strconv.FormatInt(got.Kvs[0].ModRevision, 10)}
}

// Put implements Store. It compares the revision and not the value: a delayed transaction that
// reaches etcd after its process has given up changes nothing that was changed since.
func (s *store) Put(ctx context.Context, revision string, texts ...directory.Text) (bool, error) {
	var seen int64 // 0 if there was none
	if revision != "" {
		var err error
		if seen, err = strconv.ParseInt(revision, 10, 64); err != nil {
			return false, err
		}
	}
	first := s.prefix + texts[0].Name
	var puts []clientv3.Op
	for _, t := range texts {
		puts = append(puts, clientv3.OpPut(s.prefix+t.Name, t.Text))
	}
	done, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(first), "=", seen)).Then(puts...).Else(clientv3.OpGet(first)).Commit()
	})
	if err != nil || done.Succeeded {
		return err == nil, err
	}
	present := valueOf((*clientv3.GetResponse)(done.Responses[0].GetResponseRange()))
	return present.Revision != "" && present.Text == texts[0].Text, nil
}

// Hold implements Store by a key with a lease, whose value is the holder. A lease is renewed
// rather than replaced: that writes nothing to etcd's history.
func (s *store) Hold(ctx context.Context, name, holder string, ttl time.Duration) (string, error) {
	key := s.prefix + "hold/" + name
	seconds := int64((ttl + time.Second - 1) / time.Second)
	for {
		got, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) { return c.Get(ctx, key) })
		if err != nil {
			return "", err
		}
		present, revision := "", int64(0)
		if len(got.Kvs) > 0 {
			present, revision = string(got.Kvs[0].Value), got.Kvs[0].ModRevision
		}
		if holder == "" || present != "" && present != holder || ttl == 0 && present == "" {
			return present, nil
		}
		change, next := clientv3.OpDelete(key), ""
		if ttl != 0 {
			if present == holder {
				if renewed, err := s.renew(ctx, clientv3.LeaseID(got.Kvs[0].Lease), seconds); renewed || err != nil {
					return holder, err
				}
			}
			lease, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.LeaseGrantResponse, error) {
				return c.Grant(ctx, seconds)
			})
			if err != nil {
				return "", err
			}
			change, next = clientv3.OpPut(key, holder, clientv3.WithLease(lease.ID)), holder
		}
		done, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
			return c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(change).Commit()
		})
		if err != nil || done.Succeeded {
			return next, err
		}
		// The key has changed, perhaps by an earlier try of this call: look again.
	}
}

// renew renews a lease, and reports whether it is there and lasts so many seconds.
func (s *store) renew(ctx context.Context, lease clientv3.LeaseID, seconds int64) (bool, error) {
	return ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (bool, error) {
		kept, err := c.KeepAliveOnce(ctx, lease)
		if is(err, rpctypes.ErrLeaseNotFound) {
			return false, nil
		}
		return err == nil && kept.TTL == seconds, err
	})
}
