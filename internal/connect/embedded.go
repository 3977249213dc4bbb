package connect

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/redis/redisproc"
)

// KindMiniredis is the Instance.Kind of the imitation in this process.
const KindMiniredis = "miniredis"

// Instance is a Redis that lives as long as this process, and keeps nothing.
type Instance struct {
	Client rueidis.Client
	URL    string // for dial.Redis, also in child processes
	Kind   string // "redis-server", "valkey-server" or "miniredis"
	Real   bool   // whether it is a real server

	end func() error
}

// Close closes the client and ends the server. Calling it again does nothing.
func (i *Instance) Close() error {
	i.Client.Close()
	return i.end()
}

// EmbeddedConfig says how to run an embedded Redis. The zero value suits every
// command.
type EmbeddedConfig struct {
	// Find returns the server binary to run, or redisproc.ErrNotFound for
	// miniredis. Defaults to redisproc.Find.
	Find func() (string, error)
}

// Embedded starts a private Redis and connects to it. It falls back to
// miniredis only if no server is installed; one that does not start is an
// error. The context bounds the start.
func Embedded(ctx context.Context, cfg EmbeddedConfig) (*Instance, error) {
	find := cfg.Find
	if find == nil {
		find = redisproc.Find
	}
	binary, err := find()
	switch {
	case err == nil:
		return embedServer(ctx, binary)
	case errors.Is(err, redisproc.ErrNotFound):
		return embedMiniredis(ctx)
	default:
		return nil, err
	}
}

func embedServer(ctx context.Context, binary string) (*Instance, error) {
	proc, err := redisproc.Start(ctx, redisproc.Config{Binary: binary})
	if err != nil {
		return nil, fmt.Errorf("embedded Redis: %w", err)
	}
	return open(ctx, &Instance{URL: proc.URL(), Kind: filepath.Base(binary), Real: true, end: proc.Stop})
}

func embedMiniredis(ctx context.Context) (*Instance, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	if err := mini.Start(); err != nil {
		return nil, fmt.Errorf("embedded Redis: %w", err)
	}
	end := func() error {
		mini.Close()
		return nil
	}
	return open(ctx, &Instance{URL: "redis://" + mini.Addr(), Kind: KindMiniredis, end: end})
}

// open gives the instance its client, or ends it.
func open(ctx context.Context, i *Instance) (*Instance, error) {
	client, err := dial.Redis(ctx, i.URL)
	if err != nil {
		return nil, errors.Join(err, i.end())
	}
	i.Client = client
	return i, nil
}
