package survey

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

var (
	errSilent  = errors.New("no answer within " + readTimeout.String())
	errLoading = errors.New("the server is loading its data from disk")
)

// askServers asks all servers for INFO. It returns an error if none is there to
// serve; one that merely refuses INFO is.
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
		return node.Do(ctx, node.B().Info().Build()).ToString()
	})
	if err != nil {
		return NodeView{}, err
	}
	return readInfo(text)
}

// readInfo reads what INFO says.
func readInfo(text string) (NodeView, error) {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}
	if info["loading"] == "1" {
		return NodeView{}, errLoading
	}
	number := func(field string) int64 {
		n, _ := strconv.ParseInt(info[field], 10, 64) // what it does not tell is 0
		return n
	}
	return NodeView{
		Version: software(info), Role: info["role"],
		Uptime: time.Duration(number("uptime_in_seconds")) * time.Second,
		Memory: number("used_memory"), MaxMemory: number("maxmemory"),
		Ops: number("instantaneous_ops_per_sec"), Clients: number("connected_clients"),
		Evicted: number("evicted_keys"),
	}, nil
}

// software returns the name and version of a server. Valkey gives as redis_version the
// Redis that it goes by.
func software(info map[string]string) string {
	if version := info["valkey_version"]; version != "" {
		return "Valkey " + version
	}
	if version := info["redis_version"]; version != "" {
		return "Redis " + version
	}
	return ""
}
