package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/batch"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
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
//	cert=FILE&key=FILE       the certificate of this client
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
	cfg.Option = option
	f, err := fleet.Open(ctx, directory.Owned{Directory: dir, Close: dir.Close}, cfg)
	if err != nil {
		dir.Close()
	}
	return f, err
}

// Directory is a directory in etcd. Its methods are no API.
type Directory interface {
	fleet.Directory

	// Close closes the connections.
	Close()
}

// Open returns the directory that a URL names, see [Dial], and how to connect to the
// members of its fleet. It is for Millrace's own packages. No member of etcd need be
// reachable yet.
func Open(url string) (Directory, rueidis.ClientOption, error) {
	a, err := parse(url)
	if err != nil {
		return nil, rueidis.ClientOption{}, err
	}
	return open(a), a.servers, nil
}

// store implements Directory. It is safe for concurrent use.
type store struct {
	prefix  string
	members []*member
	ended   context.Context // ends with Close
	stop    context.CancelFunc
	last    atomic.Int32          // the member that answered last
	turn    atomic.Uint32         // the member at which the last Load started
	known   atomic.Pointer[known] // the last map that was received
	stamps  *batch.Batcher[struct{}, stamp]
}

// known is a map and its stamp.
type known struct {
	*directory.Map

	stamp stamp
}

func open(a address) *store {
	ended, stop := context.WithCancel(context.Background())
	s := &store{prefix: "millrace/" + a.fleet + "/", ended: ended, stop: stop}
	for _, endpoint := range a.endpoints {
		s.members = append(s.members, newMember(ended, a, endpoint))
	}
	// A thousand clients should not all begin with the same member.
	s.last.Store(rand.Int32N(int32(len(s.members))))
	s.turn.Store(rand.Uint32())
	s.stamps = batch.New(batch.Config[struct{}, stamp]{Call: s.confirmations})
	return s
}

// Close implements Directory.
func (s *store) Close() {
	s.stop()
	s.stamps.Wait()
	for _, m := range s.members {
		m.close()
	}
}

// stamp is the value of the epoch key, "EPOCH SUM".
type stamp struct {
	text     string
	epoch    int64 // 0 if there is no map
	revision int64 // of the key, 0 if there is none
}

// newStamp returns the stamp of a packed map.
func newStamp(epoch int64, packed string) string {
	return strconv.FormatInt(epoch, 10) + " " + directory.Sum(packed)
}

// Load implements Directory. It asks another member each time, and receives a map that it
// has only once.
func (s *store) Load(ctx context.Context) (*directory.Map, error) {
	from := int(s.turn.Add(1) % uint32(len(s.members)))
	m, err := askFrom(ctx, s, from, func(ctx context.Context, c *clientv3.Client) (*known, error) {
		present, err := s.stamp(ctx, c, clientv3.WithSerializable())
		if err != nil {
			return nil, err
		}
		return s.mapOf(ctx, c, present, clientv3.WithSerializable())
	})
	if err != nil {
		return nil, err
	}
	return m.Map, nil
}

// Confirm implements Directory.
func (s *store) Confirm(ctx context.Context, epoch int64) (*directory.Map, error) {
	present, err := s.stamps.Do(ctx, struct{}{})
	if err != nil || epoch != 0 && present.epoch == epoch {
		return nil, err
	}
	m, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*known, error) {
		return s.mapOf(ctx, c, present)
	})
	if err != nil {
		return nil, err
	}
	s.known.Store(m)
	return m.Map, nil
}

// confirmations reads the stamp for callers that have all asked before.
func (s *store) confirmations(_ context.Context, callers []struct{}) ([]stamp, error) {
	present, err := ask(s.ended, s, func(ctx context.Context, c *clientv3.Client) (stamp, error) { return s.stamp(ctx, c) })
	if err != nil {
		return nil, err
	}
	all := make([]stamp, len(callers))
	for i := range all {
		all[i] = present
	}
	return all, nil
}

// stamp reads the stamp. The read is linearizable unless opts says otherwise.
func (s *store) stamp(ctx context.Context, c *clientv3.Client, opts ...clientv3.OpOption) (stamp, error) {
	got, err := c.Get(ctx, s.prefix+"epoch", opts...)
	if err != nil || len(got.Kvs) == 0 {
		return stamp{}, err
	}
	read := stamp{text: string(got.Kvs[0].Value), revision: got.Kvs[0].ModRevision}
	number, _, _ := strings.Cut(read.text, " ")
	if read.epoch, err = strconv.ParseInt(number, 10, 64); err != nil {
		return stamp{}, directory.ErrMap.Wrap(err)
	}
	return read, nil
}

// mapOf returns the map with that stamp, or a newer one.
func (s *store) mapOf(ctx context.Context, c *clientv3.Client, present stamp, opts ...clientv3.OpOption) (*known, error) {
	if present.revision == 0 {
		return nil, directory.ErrNoFleet
	}
	if have := s.known.Load(); have != nil && have.stamp.text == present.text {
		return have, nil
	}
	got, err := c.Txn(ctx).Then(clientv3.OpGet(s.prefix+"epoch", opts...), clientv3.OpGet(s.prefix+"map", opts...)).Commit()
	if err != nil {
		return nil, err
	}
	epoch, text := got.Responses[0].GetResponseRange().Kvs, got.Responses[1].GetResponseRange().Kvs
	if len(epoch) == 0 || len(text) == 0 {
		return nil, directory.ErrMap.Wrap(errors.New("one of its two keys is missing"))
	}
	number, _, _ := strings.Cut(string(epoch[0].Value), " ")
	stored, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return nil, directory.ErrMap.Wrap(err)
	}
	m, err := directory.Unpack(string(text[0].Value))
	if err == nil && m.Epoch != stored {
		err = directory.ErrMap.Wrap(fmt.Errorf("it is stored as of epoch %d and says %d", stored, m.Epoch))
	}
	return &known{m, stamp{string(epoch[0].Value), stored, epoch[0].ModRevision}}, err
}

// changeTimeout is how long a change is tried.
const changeTimeout = 10 * time.Second

// Change implements Directory. It retries for about ten seconds. A change whose outcome
// stays unknown may have been made.
func (s *store) Change(ctx context.Context, epoch int64, next *directory.Map) error {
	if err := next.MayReplace(epoch); err != nil {
		return err
	}
	packed, err := next.Pack()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, changeTimeout, directory.ErrSilent)
	defer cancel()
	wanted := newStamp(next.Epoch, packed)
	for {
		made, err := s.change(ctx, epoch, wanted, packed)
		if made || millrace.Code(err) != "" {
			return err
		}
		// The epoch has changed meanwhile, or the outcome is not known: read it again.
		if !retry.Sleep(ctx, retryPause) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// change tries once, and reports whether the map is stored.
func (s *store) change(ctx context.Context, epoch int64, wanted, packed string) (bool, error) {
	present, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (stamp, error) { return s.stamp(ctx, c) })
	switch {
	case err != nil:
		return false, err
	case present.text == wanted:
		return true, nil
	case present.epoch != epoch:
		return false, directory.ErrConflict.Errorf("the map has epoch %d by now, not %d", present.epoch, epoch)
	}
	return s.put(ctx, s.prefix+"epoch", present.revision,
		clientv3.OpPut(s.prefix+"map", packed), clientv3.OpPut(s.prefix+"epoch", wanted))
}

// put executes the operations if the key still has that revision, 0 for no key, and reports
// whether it did. Another process may have changed the key, or an earlier try of this call.
func (s *store) put(ctx context.Context, key string, revision int64, ops ...clientv3.Op) (bool, error) {
	done, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(ops...).Commit()
	})
	if err != nil {
		return false, err
	}
	return done.Succeeded, nil
}
