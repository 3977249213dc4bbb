package script_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
)

// reading has a script that a replica may answer, and the same one without saying so.
var reading = script.Load(fstest.MapFS{
	"get.lua":    {Data: []byte("-- test.get(K) -> text\n-- Replica  may answer\nreturn redis.call('GET', K)")},
	"decide.lua": {Data: []byte("-- test.decide(K) -> text\nreturn redis.call('GET', K)")},
	"wrong.lua":  {Data: []byte("-- test.wrong(K) -> text\n-- Replica  may answer\nreturn redis.call('SET', K, '2')")},
}, "K:")

// readingFromReplica returns a client that sends reads to the replica.
func readingFromReplica(t *testing.T, master, replica *redistest.Server) rueidis.Client {
	t.Helper()
	return master.Client(t, func(o *rueidis.ClientOption) {
		o.Standalone.ReplicaAddress = []string{replica.Addr()}
		o.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
	})
}

// TestReplicaAnswers: with a client that sends reads to a replica, the replica runs the scripts
// that it may run, and the master runs all others. Before Redis 7.0 the master runs all.
func TestReplicaAnswers(t *testing.T) {
	t.Parallel()
	servers := redistest.Replicated(t, 1)
	master, replica := servers.Master, servers.Replicas[0]
	client := readingFromReplica(t, master, replica)
	if err := client.Do(t.Context(), client.B().Set().Key("k").Value("1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	direct := replica.Client(t)
	redistest.Eventually(t, "the replica has the value", func() bool {
		text, _ := direct.Do(t.Context(), direct.B().Get().Key("k").Build()).ToString()
		return text == "1"
	})
	run := script.Runner{Client: client, Scripts: reading}
	for _, name := range []string{"get", "decide"} {
		if reply, err := run.Run(t.Context(), name, "k"); err != nil || reply.Text() != "1" {
			t.Errorf("%s = %v, %v, want 1", name, reply, err)
		}
	}
	known := replica.Knows("evalsha_ro")
	if _, asked := replica.Info("commandstats")["cmdstat_evalsha_ro"]; asked != known {
		t.Errorf("the replica was asked: %v, want %v", asked, known)
	}
	if _, asked := replica.Info("commandstats")["cmdstat_evalsha"]; asked {
		t.Error("the replica was asked for what the master decides")
	}
	if known {
		if _, err := run.Run(t.Context(), "wrong", "k"); err == nil {
			t.Error("a script that writes is answered by a replica")
		}
	}
}

// seen is a client that keeps the commands that it sent.
type seen struct {
	rueidis.Client
	cmds []rueidis.Completed
}

func (c *seen) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c.cmds = append(c.cmds, cmd)
	return c.Client.Do(ctx, cmd)
}

// TestReadsAreNotRecycled: rueidis sends a read again when its connection breaks, which may still
// be writing it. So another command must not take its memory.
func TestReadsAreNotRecycled(t *testing.T) {
	t.Parallel()
	client := &seen{Client: redistest.Shared(t).Client(t)}
	run := script.Runner{Client: client, Scripts: reading}
	if _, err := run.Run(t.Context(), "get", redistest.Name(t)); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range client.cmds {
		if cmd.IsReadOnly() && len(cmd.Commands()) == 0 {
			t.Error("a read was recycled")
		}
	}
}

// TestWithoutReadOnlyCommands: where EVALSHA_RO is unknown or not allowed, scripts go out as before,
// and are asked for so once.
func TestWithoutReadOnlyCommands(t *testing.T) {
	t.Parallel()
	var without []string // arguments of a server that does not know the command
	if redistest.Shared(t).Knows("evalsha_ro") {
		without = []string{"--rename-command", "EVALSHA_RO", ""}
	}
	for _, tt := range []struct {
		name string
		args []string
		user []string // the rules of the client's user; nil for the default one
	}{
		{name: "unknown", args: without},
		{name: "not allowed", user: []string{"on", "nopass", "~*", "+@all", "-@scripting", "+eval", "+evalsha"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{Args: tt.args})
			proxy := redistest.NewProxy(t, server.Addr())
			var tries atomic.Int32
			proxy.DropReplyWhen(func(cmd []string) bool {
				if redistest.Named("EVALSHA_RO")(cmd) {
					tries.Add(1)
				}
				return false // it only counts
			})
			client := proxy.Client(t)
			if tt.user != nil {
				set := append([]string{"SETUSER", "reader"}, tt.user...)
				if err := client.Do(t.Context(), client.B().Arbitrary("ACL").Args(set...).Build()).Error(); err != nil {
					t.Fatal(err)
				}
				client = proxy.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "reader", "any" })
			}
			if err := client.Do(t.Context(), client.B().Set().Key("k").Value("1").Build()).Error(); err != nil {
				t.Fatal(err)
			}
			run := script.Runner{Client: client, Scripts: reading}
			for range 3 {
				if reply, err := run.Run(t.Context(), "get", "k"); err != nil || reply.Text() != "1" {
					t.Fatalf("get = %v, %v, want 1", reply, err)
				}
			}
			if n := tries.Load(); n != 1 {
				t.Errorf("EVALSHA_RO was tried %d times, want once", n)
			}
		})
	}
}

// TestReadsEnd: a client repeats reads by itself without end while a server is away. The runner
// ends that, though the caller's context does not.
func TestReadsEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	run := script.Runner{Client: client, Scripts: reading, Retry: retry.Policy{Timeout: time.Millisecond}}
	if _, err := run.Run(t.Context(), "get", "k"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if _, err := run.Run(context.Background(), "get", "k"); err == nil {
		t.Error("a script is answered by nobody")
	}
	if err := run.Plain(context.Background(), "test.plain", "k", func(ctx context.Context) error {
		ctx, cancel := script.Reading(ctx)
		defer cancel()
		return client.Do(ctx, client.B().Get().Key("k").Build()).Error()
	}); err == nil {
		t.Error("a plain read is answered by nobody")
	}
}
