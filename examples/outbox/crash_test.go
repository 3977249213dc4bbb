package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/pgtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

// asRelay makes the test binary a relay that kills itself after some step.
const asRelay = "OUTBOX_TEST_AS_RELAY"

// doomed says which relay the test binary is.
type doomed struct{ DSN, Redis, Queue string }

func beRelay(text string) {
	var d doomed
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a test that was killed leaves none behind
	defer cancel()
	client, err := dial.Redis(ctx, d.Redis)
	if err != nil {
		os.Exit(1) // Redis restarts: the test starts another relay
	}
	queue, err := fairqueue.New(client, d.Queue, fairqueue.Config{})
	if err != nil {
		panic(err)
	}
	left := 3 + rand.N(20)
	r := relay{
		dsn: d.DSN, queue: queue, name: "test", batch: 7, poll: 20 * time.Millisecond, check: time.Second, resend: time.Hour, keep: time.Hour,
		at: func(string) error {
			if left--; left == 0 {
				return kill()
			}
			return nil
		},
	}
	_ = r.run(ctx)
	os.Exit(1)
}

// kill ends this process as a crash does.
func kill() error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // until the signal is delivered
}

var errRolledBack = errors.New("rolled back")

// killed: two relays at a time, each killed after some step, replies that are lost, a
// database and a Redis that crash once. Each row is one message.
func killed(t *testing.T, pg *pgtest.Server) {
	lives, orders := 10, 150
	if os.Getenv("MILLRACE_SOAK") != "" {
		lives, orders = 300, 20_000
	}
	redis := redistest.Start(t, redistest.Options{AOF: true, Args: []string{"--appendfsync", "always"}})
	s := newSite(t, pg, redis)
	proxy := redistest.NewProxy(t, redis.Addr())
	proxy.DropReplyWhen(func(cmd []string) bool { return cmd[0] == "EVALSHA" && rand.N(10) == 0 })

	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(doomed{DSN: s.relay.dsn, Redis: proxy.URL(), Queue: s.queue.Name()})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var restarts sync.Once
	for range 2 {
		wg.Go(func() {
			for life := range lives / 2 {
				relay := exec.CommandContext(t.Context(), program)
				relay.Env = append(os.Environ(), asRelay+"="+string(settings))
				if err := relay.Start(); err != nil {
					t.Error(err)
					return
				}
				if life == lives/4 {
					restarts.Do(func() { redis.Kill(); redis.Restart() })
				}
				_ = relay.Wait()
			}
		})
	}
	for i := range orders {
		if i == orders/2 {
			s.conn.Close(t.Context())
			pg.Restart()
			s.conn = s.connect()
		}
		err := pgx.BeginFunc(t.Context(), s.conn, func(tx pgx.Tx) error {
			if err := order(t.Context(), tx, fmt.Sprint("tenant ", rand.N(20)), "x"); err != nil || rand.N(10) > 0 {
				return err
			}
			return errRolledBack
		})
		if err != nil && !errors.Is(err, errRolledBack) {
			t.Fatal(err)
		}
	}
	wg.Wait()
	s.mustSend()
	s.wantOnce()
	t.Logf("%d rows, %d lost replies", len(s.rows()), proxy.Dropped())
}
