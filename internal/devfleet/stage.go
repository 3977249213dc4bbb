package devfleet

import (
	"context"
	"log/slog"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/must"
)

// OnStage starts a fleet that is stopped when the stage ends.
func OnStage(ctx context.Context, stage *must.Stage, cfg Config) *Fleet {
	servers := must.Get(Start(ctx, cfg))
	stage.Defer(func(context.Context) error { return servers.Stop() })
	return servers
}

// Dial returns a client that logs nothing and is closed when the stage ends. Its writes wait for
// so many replicas.
func (f *Fleet) Dial(ctx context.Context, stage *must.Stage, waitReplicas int) *fleet.Fleet {
	client := must.Get(fleet.Dial(ctx, f.URL(), fleet.Config{WaitReplicas: waitReplicas, Logger: slog.New(slog.DiscardHandler)}))
	stage.Close(client)
	return client
}
