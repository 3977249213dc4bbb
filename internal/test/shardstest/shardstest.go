// Package shardstest has the common parts of the tests of packages expiry and pinned.
package shardstest

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// HeadSize is the length of the head in front of a value.
const HeadSize = 8

// HeadOf returns the head of a value with that deadline.
func HeadOf(at time.Time) string {
	head := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
	head[0], head[1] = 250, 2
	return string(head)
}

// DeadlineOf decodes the deadline of a stored value.
func DeadlineOf(stored string) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64([]byte("\x00\x00" + stored[2:HeadSize]))))
}

// Do runs a command.
func Do(client rueidis.Client, args ...string) rueidis.RedisResult {
	return client.Do(context.Background(), client.B().Arbitrary(args...).Build())
}

// Must runs a command that does not fail.
func Must(t *testing.T, client rueidis.Client, args ...string) {
	t.Helper()
	if err := Do(client, args...).Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%q: %v", args[0], err)
	}
}

// Integer runs a command that replies with a number.
func Integer(t *testing.T, client rueidis.Client, args ...string) int64 {
	t.Helper()
	n, err := Do(client, args...).AsInt64()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return n
}

// Raw runs a command that replies with a number or a text, "" for nil.
func Raw(t *testing.T, client rueidis.Client, args ...string) string {
	t.Helper()
	reply, err := Do(client, args...).ToMessage()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if n, err := reply.AsInt64(); err == nil && reply.IsInt64() {
		return strconv.FormatInt(n, 10)
	}
	text, err := reply.ToString()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return text
}

// Clock returns the server's time.
func Clock(t *testing.T, client rueidis.Client) time.Time {
	t.Helper()
	parts, err := client.Do(t.Context(), client.B().Time().Build()).AsIntSlice()
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(parts[0], parts[1]*1000)
}

// Slice runs a slice of a job.
func Slice(t *testing.T, job millrace.Job, want millrace.Progress) {
	t.Helper()
	got, err := job.Slice(t.Context())
	if err != nil || got != want {
		t.Fatalf("a slice of %s = %v, %v, want %v", job.Name, got, err, want)
	}
}

// Asked returns how many of each command a server has run.
func Asked(server *redistest.Server) map[string]int {
	counts := map[string]int{}
	for name, text := range server.Info("commandstats") {
		calls, _, _ := strings.Cut(strings.TrimPrefix(text, "calls="), ",")
		counts[strings.TrimPrefix(name, "cmdstat_")], _ = strconv.Atoi(calls)
	}
	return counts
}

// FromReplicas makes a client send reads to replicas.
func FromReplicas(opt *rueidis.ClientOption) {
	opt.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
}

// Moving calls play in each state in which a resharding can leave the slot of a shard for a
// while: no key of it moved, and all.
func Moving(t *testing.T, cluster *redistest.ClusterServers, base string, play func(state string)) *redistest.Migration {
	t.Helper()
	m := cluster.BeginMigration(t, base)
	play("nothing moved")
	m.MoveAll(t)
	play("everything moved")
	return m
}

// AgeLanes makes the lanes of a shard so old that the next call may forget them.
func AgeLanes(t *testing.T, client rueidis.Client, base string) {
	t.Helper()
	for _, lanes := range []string{base + ":lanes:0", base + ":lanes:1"} {
		Must(t, client, "HINCRBY", lanes, "", "-5")
	}
}

// LargestReply is a hook that measures how many bytes the server sends for one call.
type LargestReply struct {
	Bytes  int // at most
	server *redistest.Server
	before int
}

// Measure returns a hook that measures from now on.
func Measure(server *redistest.Server) *LargestReply {
	r := &LargestReply{server: server}
	r.before = r.sent()
	return r
}

func (r *LargestReply) sent() int {
	n, _ := strconv.Atoi(r.server.Info("stats")["total_net_output_bytes"])
	return n
}

// OnCall implements millrace.CallHook.
func (r *LargestReply) OnCall(ctx context.Context, _ millrace.Call) (context.Context, func(error)) {
	return ctx, func(error) {
		r.Bytes, r.before = max(r.Bytes, r.sent()-r.before), r.sent()
	}
}

// KeysLeft returns all keys but those of the registry, and an error if one of them is large.
func KeysLeft(t *testing.T, client rueidis.Client) (names []string, err error) {
	t.Helper()
	all, failed := Do(client, "KEYS", "*").AsStrSlice()
	if failed != nil {
		t.Fatal(failed)
	}
	for _, name := range all {
		if strings.HasPrefix(name, "mr:registry:") {
			continue // which has an entry of each namespace
		}
		names = append(names, name)
		if size := Integer(t, client, "MEMORY", "USAGE", name); size > 300 {
			err = fmt.Errorf("%s takes %d bytes", name, size)
		}
	}
	slices.Sort(names)
	return names, err
}
