package etcd

import (
	"context"
	"encoding/json"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Beats implements Directory.
func (s *store) Beats(ctx context.Context) (directory.Beats, error) {
	kv, err := s.get(ctx, s.prefix+"beats")
	if err != nil {
		return directory.Beats{}, err
	}
	return directory.ParseBeats(string(kv.Value))
}

// KeepBeats implements Directory.
func (s *store) KeepBeats(ctx context.Context, beats directory.Beats) error {
	text, err := json.Marshal(beats)
	if err != nil {
		return err
	}
	_, err = s.transact(ctx, nil, []clientv3.Op{clientv3.OpPut(s.prefix+"beats", string(text))})
	return err
}
