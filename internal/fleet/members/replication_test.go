package members

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestAReplicaFollowsOneRun of its master: after the master's restart the replica copies from
// it only when told to.
func TestAReplicaFollowsOneRun(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.Options{TCP: true})
	replica := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
	pool := New(rueidis.ClientOption{}, 0)
	defer pool.Close()
	host, port := "127.0.0.1", master.Addr()[len("127.0.0.1:"):]
	ctx := t.Context()
	follow := func(run string) error {
		if err := Admit(ctx, master.Client(t), run, "secret"); err != nil {
			return err
		}
		return Follow(ctx, replica.Client(t), host, port, run, "secret")
	}
	linked := func() bool { return replica.Info("replication")["master_link_status"] == "up" }
	first := master.Info("server")["run_id"]
	if err := follow(first); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the replica is linked", linked)
	c := replica.Client(t)
	login, err := c.Do(ctx, c.B().ConfigGet().Parameter("masteruser").Build()).AsStrMap()
	if err != nil || FollowedRun(login["masteruser"]) != first {
		t.Errorf("masteruser is %v, %v, want the run %s", login, err, first)
	}

	master.Kill()
	master.Restart()
	redistest.Eventually(t, "the replica was refused", func() bool {
		c := master.Client(t)
		log, err := c.Do(ctx, c.B().Arbitrary("ACL", "LOG").Build()).ToArray()
		return err == nil && len(log) > 0
	})
	if linked() {
		t.Error("the replica follows another run")
	}
	if err := follow(first); err == nil {
		t.Error("a run that is over can be followed")
	}
	if err := follow(master.Info("server")["run_id"]); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the replica is linked again", linked)
}

// TestInAnotherRun: a server was restarted, and came back fenced. InRun returns an error, and the
// process goes on.
func TestInAnotherRun(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--replicaof", FenceHost, FencePort, "--replica-serve-stale-data", "no"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := server.Client(t)
	if err := Admit(ctx, c, "another run", "secret"); err == nil || !strings.Contains(err.Error(), "was restarted") {
		t.Errorf("Admit in another run = %v, want that it was restarted", err)
	}
	if err := Admit(ctx, c, server.Info("server")["run_id"], "secret"); err != nil {
		t.Errorf("Admit = %v", err)
	}
}
