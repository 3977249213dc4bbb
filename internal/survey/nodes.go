package survey

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

var (
	errSilent  = errors.New("no answer within " + readTimeout.String())
	errLoading = errors.New("the server is loading its data from disk")
)

// askServers asks all servers for INFO. It returns an error if no server serves. A server
// that refuses INFO serves.
func askServers(ctx context.Context, client rueidis.Client) (ServerView, []Trouble, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, errSilent)
	defer cancel()
	var mu sync.Mutex
	var view ServerView
	var troubles []Trouble
	away := errors.New("no server is known")
	serves := false
	var asking sync.WaitGroup
	for addr, node := range client.Nodes() {
		asking.Go(func() {
			info, err := askServer(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			serves = serves || err == nil || retry.Code(err, "NOPERM")
			if err != nil {
				away = err
				troubles = append(troubles, Trouble{Kind: Server, Name: addr, Err: err})
				return
			}
			info.Addr = addr
			view.Nodes = append(view.Nodes, info)
		})
	}
	asking.Wait()
	if !serves {
		return view, nil, away
	}
	slices.SortFunc(view.Nodes, func(a, b NodeView) int { return cmp.Compare(a.Addr, b.Addr) })
	slices.SortFunc(troubles, func(a, b Trouble) int { return cmp.Compare(a.Name, b.Name) })
	return view, troubles, nil
}

// askServer asks one server.
func askServer(ctx context.Context, node rueidis.Client) (NodeView, error) {
	text, err := script.Prompt(ctx, func(ctx context.Context) (string, error) {
		return node.Do(ctx, node.B().Info().Build().Pin()).ToString()
	})
	if err != nil {
		return NodeView{}, err
	}
	return readInfo(text)
}

// readInfo reads the reply of INFO.
func readInfo(text string) (NodeView, error) {
	fields := info.Parse(text)
	if fields["loading"] == "1" {
		return NodeView{}, errLoading
	}
	return NodeView{
		Version: software(fields), Role: fields["role"],
		Uptime: time.Duration(fields.Int("uptime_in_seconds")) * time.Second,
		Memory: fields.Int("used_memory"), MaxMemory: fields.Int("maxmemory"),
		Ops: fields.Int("instantaneous_ops_per_sec"), Clients: fields.Int("connected_clients"),
		Evicted: fields.Int("evicted_keys"), SaveFails: fields["rdb_last_bgsave_status"] == "err", LogFails: fields["aof_last_write_status"] == "err",
	}, nil
}

// software returns the name and version of a server. Valkey gives as redis_version the
// Redis that it is compatible with.
func software(fields info.Fields) string {
	if version := fields["valkey_version"]; version != "" {
		return "Valkey " + version
	}
	if version := fields["redis_version"]; version != "" {
		return "Redis " + version
	}
	return ""
}
