package etcd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Note implements Directory. The time is that of the caller's clock; the order of the log
// is that of etcd.
func (s *store) Note(ctx context.Context, event directory.Event) error {
	event.At = time.Now().UTC().Truncate(time.Millisecond)
	text, err := json.Marshal(event)
	if err != nil {
		return err
	}
	key := s.prefix + "log/" + rand.Text() // the same in each try
	done, err := s.transact(ctx, nil, []clientv3.Op{clientv3.OpPut(key, string(text)), clientv3.OpGet(s.prefix+"log/", newestFirst(clientv3.WithKeysOnly())...)})
	if err != nil {
		return err
	}
	var old []clientv3.Op
	for _, kv := range done.Responses[1].GetResponseRange().Kvs[min(logLength, int(done.Responses[1].GetResponseRange().Count)):] {
		old = append(old, clientv3.OpDelete(string(kv.Key)))
	}
	if len(old) > 0 {
		_, err = s.transact(ctx, nil, old[:min(len(old), 100)]) // etcd limits transactions to 128
	}
	return err
}

// logLength is how many events are kept.
const logLength = 200

func newestFirst(opts ...clientv3.OpOption) []clientv3.OpOption {
	return append(opts, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))
}

// Events implements Directory.
func (s *store) Events(ctx context.Context) ([]directory.Event, error) {
	got, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
		return c.Get(ctx, s.prefix+"log/", newestFirst()...)
	})
	if err != nil {
		return nil, err
	}
	events := make([]directory.Event, len(got.Kvs))
	for i, kv := range got.Kvs {
		if err := json.Unmarshal(kv.Value, &events[i]); err != nil {
			return nil, fmt.Errorf("the directory holds the event %q: %w", kv.Value, err)
		}
	}
	return events, nil
}

// Snapped implements Directory. The times are by the callers' clocks. A stored time that
// is in the future is wrong, and does not count.
func (s *store) Snapped(ctx context.Context, began time.Time, snapshot directory.Snapshot) error {
	at, now := began.UTC().Truncate(time.Millisecond), time.Now()
	older := func(stored time.Time) bool { return stored.After(at) && !stored.After(now) }
	key := s.prefix + "snapshots/" + strconv.Itoa(snapshot.Partition)
	for {
		present, err := s.get(ctx, key)
		if err != nil {
			return err
		}
		stored := directory.Snapshot{Partition: snapshot.Partition}
		if present.ModRevision != 0 {
			if stored, err = readSnapshot(string(present.Key), present.Value); err != nil {
				return err
			}
		}
		if snapshot.Saved != (directory.Saved{}) && !older(stored.Saved.At) {
			stored.Saved = snapshot.Saved
			stored.Saved.At = at
		}
		if snapshot.Archived != (directory.Archived{}) && !older(stored.Archived.At) {
			stored.Archived = snapshot.Archived
			stored.Archived.At = at
		}
		if !older(stored.Failed.At) {
			if stored.Failed = snapshot.Failed; stored.Failed != (directory.Failed{}) {
				stored.Failed.At = at
			}
		}
		text, err := json.Marshal(stored)
		if err != nil {
			return err
		}
		if done, err := s.put(ctx, key, present.ModRevision, clientv3.OpPut(key, string(text))); done || err != nil {
			return err
		}
	}
}

// Snapshots implements Directory. The time is that of the caller's clock.
func (s *store) Snapshots(ctx context.Context) ([]directory.Snapshot, time.Time, error) {
	got, err := ask(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
		return c.Get(ctx, s.prefix+"snapshots/", clientv3.WithPrefix())
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	all := make([]directory.Snapshot, len(got.Kvs))
	for i, kv := range got.Kvs {
		if all[i], err = readSnapshot(string(kv.Key), kv.Value); err != nil {
			return nil, time.Time{}, err
		}
	}
	return all, time.Now().UTC(), nil
}

// readSnapshot reads the value of snapshots/PARTITION.
func readSnapshot(key string, value []byte) (snapshot directory.Snapshot, err error) {
	if err = json.Unmarshal(value, &snapshot); err == nil {
		snapshot.Partition, err = strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
	}
	if err != nil {
		err = fmt.Errorf("the directory holds the snapshot %s %q: %w", key, value, err)
	}
	return snapshot, err
}
