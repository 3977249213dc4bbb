package script

import (
	"context"
	"iter"

	"github.com/redis/rueidis"
)

// scanCount is how many keys a server looks at in one step of a scan.
const scanCount = 1000

// Scan goes through the keys that match a glob pattern, on every master. A key
// may come twice.
func Scan(ctx context.Context, client rueidis.Client, match string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, node := range client.Nodes() {
			if !scanNode(ctx, node, match, yield) {
				return
			}
		}
	}
}

// scanNode scans one node, unless it is a replica, and reports whether to go on.
func scanNode(ctx context.Context, node rueidis.Client, match string, yield func(string, error) bool) bool {
	master, err := isMaster(ctx, node)
	if err != nil {
		return yield("", err)
	}
	if !master {
		return true
	}
	for cursor := uint64(0); ; {
		page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(match).Count(scanCount).Build().Pin()).AsScanEntry()
		if err != nil {
			return yield("", err)
		}
		for _, key := range page.Elements {
			if !yield(key, nil) {
				return false
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return true
		}
	}
}

// isMaster reports whether a node takes writes. A server that does not know its
// role, like miniredis, is alone and a master.
func isMaster(ctx context.Context, node rueidis.Client) (bool, error) {
	role, err := Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisMessage, error) {
		return node.Do(ctx, node.B().Role().Build()).ToArray()
	})
	if _, refused := rueidis.IsRedisErr(err); refused {
		return true, nil
	}
	if err != nil || len(role) == 0 {
		return false, err
	}
	text, err := role[0].ToString()
	return text == "master", err
}
