package script_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestPipe: a pipeline answers in order, with the server's clock, is repeated when its reply is lost,
// and has the error of a command where it is read, under the name that programs know.
func TestPipe(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	client := proxy.Client(t)
	for _, cmd := range []rueidis.Completed{
		client.B().Hset().Key("k:h").FieldValue().FieldValue("f", "v").Build(),
		client.B().Zadd().Key("k:z").ScoreMember().ScoreMember(1.5, "m").Build(),
	} {
		must(t, client, cmd)
	}
	run := script.Runner{Client: client, Scripts: reading}
	lost := 0
	proxy.DropReplyWhen(func(cmd []string) bool {
		drop := redistest.Named("HGETALL")(cmd) && lost == 0
		if drop {
			lost++
		}
		return drop
	})
	before := time.Now().Add(-time.Second)
	reply, err := run.Pipe(t.Context(), "test.pipe", "k", false, [][]string{
		{"HGETALL", ":h"}, {"HGET", ":h", "none"}, {"ZRANGE", ":z", "0", "-1", "WITHSCORES"}, {"GET", ":h"}, {"HLEN", ":h"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if lost != 1 {
		t.Errorf("%d replies were lost, want one: this shows nothing", lost)
	}
	if fields := reply.Fields(); len(fields) != 1 || fields["f"] != "v" {
		t.Errorf("HGETALL = %v", fields)
	}
	if text, found := reply.Maybe(); found {
		t.Errorf("HGET of no field = %q", text)
	}
	if scores := reply.Scores(); len(scores) != 1 || scores[0] != (rueidis.ZScore{Member: "m", Score: 1.5}) {
		t.Errorf("ZRANGE = %v", scores)
	}
	if now := time.UnixMicro(reply.Clock); now.Before(before) || now.After(time.Now().Add(time.Second)) {
		t.Errorf("the clock is %v, want about now", now)
	}
	if reply.Err() != nil {
		t.Errorf("an error before the command that has one: %v", reply.Err())
	}
	if n := reply.Text(); !errors.Is(reply.Err(), millrace.ErrBroken) || n != "" || reply.Int() != 0 {
		t.Errorf("GET of a hash = %q, %v, want ErrBroken, and nothing behind it", n, reply.Err())
	}
}

// TestPipeToReplicas: of a client that sends reads to a replica, the replica answers pipelines that it
// may answer, and the master all others.
func TestPipeToReplicas(t *testing.T) {
	t.Parallel()
	servers := redistest.Replicated(t, 1)
	master, replica := servers.Master, servers.Replicas[0]
	client := readingFromReplica(t, master, replica)
	run := script.Runner{Client: client, Scripts: reading}
	for may, want := range map[bool]*redistest.Server{true: replica, false: master} {
		before := want.Info("commandstats")["cmdstat_hlen"]
		if _, err := run.Pipe(t.Context(), "test.pipe", "k", may, [][]string{{"HLEN", ""}, {"HLEN", ":h"}}); err != nil {
			t.Fatal(err)
		}
		if after := want.Info("commandstats")["cmdstat_hlen"]; after == before {
			t.Errorf("a replica may answer: %v, and the other server did", may)
		}
	}
}
