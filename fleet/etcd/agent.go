package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Lead implements Directory. etcd never forgets a change, so it has always settled.
func (s *store) Lead(ctx context.Context, agent string, ttl time.Duration) (leads bool, settled time.Duration, err error) {
	leads, err = s.hold(ctx, "agent", agent, ttl)
	return leads, directory.Always, err
}

// Turn implements Directory.
func (s *store) Turn(ctx context.Context, node, holder string, ttl time.Duration) (bool, error) {
	return s.hold(ctx, "turns/"+node, holder, ttl)
}

// seconds rounds a TTL up to whole seconds, which etcd counts in.
func seconds(ttl time.Duration) int64 { return int64((ttl + time.Second - 1) / time.Second) }

// hold gives a key with a lease to a holder, unless another one has it, and reports whether
// the holder has it. The value is "SECONDS HOLDER". A TTL of 0 gives it up.
//
// A lease is renewed rather than replaced: that writes nothing to etcd's history.
func (s *store) hold(ctx context.Context, key, holder string, ttl time.Duration) (bool, error) {
	key = s.prefix + key
	value := fmt.Sprintf("%d %s", seconds(ttl), holder)
	for {
		present, err := s.get(ctx, key)
		if err != nil {
			return false, err
		}
		if _, other, _ := strings.Cut(string(present.Value), " "); present.ModRevision != 0 && other != holder {
			return false, nil
		}
		var change clientv3.Op
		switch {
		case ttl == 0 && present.ModRevision == 0:
			return true, nil
		case ttl == 0:
			change = clientv3.OpDelete(key)
		default:
			if string(present.Value) == value {
				if renewed, err := s.renew(ctx, clientv3.LeaseID(present.Lease)); renewed || err != nil {
					return renewed, err
				}
			}
			lease, err := s.grant(ctx, ttl)
			if err != nil {
				return false, err
			}
			change = clientv3.OpPut(key, value, clientv3.WithLease(lease))
		}
		// If the key has changed, perhaps by an earlier try of this call, look again.
		if done, err := s.put(ctx, key, present.ModRevision, change); done || err != nil {
			return done, err
		}
	}
}

// get reads a key. It is empty if there is none.
func (s *store) get(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	got, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) { return c.Get(ctx, key) })
	if err != nil || len(got.Kvs) == 0 {
		return &mvccpb.KeyValue{}, err
	}
	return got.Kvs[0], nil
}

func (s *store) grant(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	granted, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.LeaseGrantResponse, error) {
		return c.Grant(ctx, seconds(ttl))
	})
	if err != nil {
		return 0, err
	}
	return granted.ID, nil
}

// renew reports whether the lease was still there.
func (s *store) renew(ctx context.Context, lease clientv3.LeaseID) (bool, error) {
	return ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (bool, error) {
		_, err := c.KeepAliveOnce(ctx, lease)
		ended := is(err, rpctypes.ErrLeaseNotFound)
		if ended {
			err = nil
		}
		return err == nil && !ended, err
	})
}

// A run that moves tags has two keys: moves/RUN stays until it ends, and moving/RUN has a
// lease.

// Moving implements Directory.
func (s *store) Moving(ctx context.Context, run string, ttl time.Duration) error {
	ops := []clientv3.Op{clientv3.OpDelete(s.prefix + "moves/" + run), clientv3.OpDelete(s.prefix + "moving/" + run)}
	if ttl != 0 {
		var err error
		if ops, err = s.register(ctx, run, ttl); err != nil {
			return err
		}
	}
	_, err := s.transact(ctx, nil, ops)
	return err
}

// Adopt implements Directory.
func (s *store) Adopt(ctx context.Context, run string, ttl time.Duration) (bool, error) {
	for {
		seen, err := s.transact(ctx, nil, []clientv3.Op{
			clientv3.OpGet(s.prefix+"moves/", clientv3.WithPrefix(), clientv3.WithLimit(1)),
			clientv3.OpGet(s.prefix+"moving/", clientv3.WithPrefix()),
		})
		if err != nil {
			return false, err
		}
		if seen.Responses[0].GetResponseRange().Count == 0 {
			return false, nil
		}
		for _, kv := range seen.Responses[1].GetResponseRange().Kvs {
			if string(kv.Key) != s.prefix+"moving/"+run {
				return false, nil
			}
		}
		ops, err := s.register(ctx, run, ttl)
		if err != nil {
			return false, err
		}
		// No other run has begun or gone on since. One that has ended needs no care.
		var same []clientv3.Cmp
		for _, prefix := range []string{"moves/", "moving/"} {
			same = append(same, clientv3.Compare(clientv3.ModRevision(s.prefix+prefix), "<", seen.Header.Revision+1).WithPrefix())
		}
		// All others; etcd refuses a transaction that deletes and puts the same key.
		own := s.prefix + "moves/" + run
		ops = append(ops, clientv3.OpDelete(s.prefix+"moves/", clientv3.WithRange(own)),
			clientv3.OpDelete(own+"\x00", clientv3.WithRange(clientv3.GetPrefixRangeEnd(s.prefix+"moves/"))))
		if done, err := s.transact(ctx, same, ops); err != nil || done.Succeeded {
			return err == nil, err
		}
	}
}

// register returns the operations that register a run.
func (s *store) register(ctx context.Context, run string, ttl time.Duration) ([]clientv3.Op, error) {
	lease, err := s.grant(ctx, ttl)
	return []clientv3.Op{
		clientv3.OpPut(s.prefix+"moves/"+run, ""),
		clientv3.OpPut(s.prefix+"moving/"+run, "", clientv3.WithLease(lease)),
	}, err
}

func (s *store) transact(ctx context.Context, given []clientv3.Cmp, then []clientv3.Op) (*clientv3.TxnResponse, error) {
	return ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(given...).Then(then...).Commit()
	})
}
