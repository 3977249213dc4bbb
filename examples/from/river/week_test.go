package river_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/millrace/millrace/examples/from/ledger"
	"github.com/millrace/millrace/examples/from/mail"
	"github.com/millrace/millrace/examples/from/river/after"
	"github.com/millrace/millrace/examples/from/river/before"
	"github.com/millrace/millrace/internal/test/pgtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	redistest.Main(m)
}

// shop is a database with River, and a Redis with a queue.
type shop struct {
	*testing.T
	ledger.Ledger

	redis  *redistest.Server
	pool   *pgxpool.Pool
	insert *river.Client[pgx.Tx]
	mails  after.Mails

	keys []string // of all mails that are to be sent
}

func newShop(t *testing.T) *shop {
	redis := redistest.Start(t, redistest.Options{})
	client := redis.Client(t)
	pool, err := pgxpool.New(t.Context(), pgtest.Start(t).DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	s := &shop{T: t, Ledger: ledger.New(client), redis: redis, pool: pool}
	if s.insert, err = river.NewClient(driver, &river.Config{}); err != nil {
		t.Fatal(err)
	}
	if s.mails, err = after.Open(client); err != nil {
		t.Fatal(err)
	}
	return s
}

// soon retries at once.
type soon struct{}

func (soon) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(time.Millisecond) }

// riverWorker works until it is stopped. It forwards jobs, or works on them itself.
func (s *shop) riverWorker(forwards bool) (stop func()) {
	s.Helper()
	cfg, err := before.Config(s.Send)
	if err != nil {
		s.Fatal(err)
	}
	if forwards {
		cfg.Workers = river.NewWorkers()
		river.AddWorker(cfg.Workers, &after.Forwarder{Mails: s.mails})
	}
	cfg.RetryPolicy, cfg.FetchCooldown, cfg.FetchPollInterval = soon{}, 5*time.Millisecond, 20*time.Millisecond
	client, err := river.NewClient(riverpgxv5.New(s.pool), cfg)
	if err != nil {
		s.Fatal(err)
	}
	if err := client.Start(context.Background()); err != nil {
		s.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := client.Stop(context.Background()); err != nil {
			s.Errorf("a worker of River: %v", err)
		}
	})
	s.Cleanup(stop)
	return stop
}

func (s *shop) newWorker() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	mails, err := after.Open(s.redis.Client(s.T))
	if err != nil {
		s.Fatal(err)
	}
	go func() { ended <- after.Serve(ctx, mails, s.Send) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.Errorf("a new worker: %v", err)
		}
	})
	s.Cleanup(stop)
	return stop
}

var errRolledBack = errors.New("rolled back")

// order enqueues a mail in a transaction.
func (s *shop) order(m mail.Mail, commits bool) {
	s.Helper()
	err := pgx.BeginFunc(s.Context(), s.pool, func(tx pgx.Tx) error {
		if err := before.Enqueue(s.Context(), s.insert, tx, m, 0); err != nil || commits {
			return err
		}
		return errRolledBack
	})
	if err != nil && !errors.Is(err, errRolledBack) {
		s.Fatal(err)
	}
}

// enqueue enqueues some mails of orders, which belong to transactions, and some that do not, with their old or new producer.
func (s *shop) enqueue(new bool) {
	s.Helper()
	for _, to := range []string{"ann@a.example", "bob@b.example", "fails@c.example", "busy@c.example"} {
		m := mail.Mail{Customer: fmt.Sprint("c", rand.IntN(3)), To: to, Key: fmt.Sprint("order ", len(s.keys))}
		s.keys = append(s.keys, m.Key)
		s.order(m, true)
		s.order(m, true) // the request came twice
		s.order(mail.Mail{Customer: "c0", To: to, Key: "rolled back " + m.Key}, false)

		m.Key = fmt.Sprint("reminder ", len(s.keys))
		s.keys = append(s.keys, m.Key)
		if !new {
			s.order(m, true)
			continue
		}
		if err := after.Enqueue(s.Context(), s.mails, m, 10*time.Millisecond); err != nil {
			s.Fatal(err)
		}
	}
	s.order(mail.Mail{Customer: "c0", To: "no@a.example", Key: fmt.Sprint("bad ", len(s.keys))}, true)
}

// left returns how many jobs wait or run in River.
func (s *shop) left() (n int) {
	s.Helper()
	err := s.pool.QueryRow(s.Context(), `SELECT count(*) FROM river_job WHERE state NOT IN ('completed', 'cancelled', 'discarded')`).Scan(&n)
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// TestWeek follows docs/FROM_RIVER.md. Two workers are replaced by forwarders, and a producer by a new one, in any order that the page allows, also back
// and forth, while all of them work. At each moment each mail whose transaction committed is handled, none twice, and
// no mail of one that was rolled back.
func TestWeek(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	workers, forwards := [2]func(){s.riverWorker(false), s.riverWorker(false)}, [2]bool{}
	newWorkers, isNew, back := 0, false, 0
	for forwards != [2]bool{true, true} || !isNew {
		worker := rand.IntN(2)
		var step string
		switch choice := rand.IntN(4); {
		case choice == 0 && newWorkers < 2:
			step = "a new worker"
			s.newWorker()
			newWorkers++
		case choice == 1 && newWorkers > 0 && (!forwards[worker] || back < 3):
			step = fmt.Sprintf("worker %d forwards: %t", worker, !forwards[worker])
			if forwards[worker] {
				back++
			}
			workers[worker]()
			forwards[worker] = !forwards[worker]
			workers[worker] = s.riverWorker(forwards[worker])
		case choice == 2 && newWorkers > 0 && (!isNew || back < 3):
			step = fmt.Sprintf("the producer is new: %t", !isNew)
			if isNew {
				back++
			}
			isNew = !isNew
		default:
			continue
		}
		s.enqueue(isNew)
		s.WantOnce(s.T, step, s.keys)
		if t.Failed() {
			t.FailNow()
		}
	}
	redistest.Eventually(t, "River has nothing left", func() bool { return s.left() == 0 })
}

// TestDigest: the tick of a schedule sends the mail of its day.
func TestDigest(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	s := &shop{T: t, Ledger: ledger.New(redis.Client(t)), redis: redis}
	var err error
	if s.mails, err = after.Open(redis.Client(t)); err != nil {
		t.Fatal(err)
	}
	s.newWorker()
	if err := after.Schedule(t.Context(), s.mails); err != nil {
		t.Fatal(err)
	}
	if _, err := s.mails.Queue.Schedules().Run(t.Context(), "digest"); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "it is sent", func() bool {
		counts, err := s.Counts(t.Context())
		return err == nil && len(counts) == 1
	})
}

// TestDead: both sides keep mails that failed too often, and try them again.
func TestDead(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.riverWorker(false)
	s.newWorker()
	s.order(mail.Mail{Customer: "acme", To: "ann@a.example", Key: "old"}, true)
	if err := after.Enqueue(t.Context(), s.mails, mail.Mail{Customer: "acme", To: "no@a.example", Key: "new"}, 0); err != nil {
		t.Fatal(err)
	}
	s.WantOnce(t, "the start", []string{"old"})
	redistest.Eventually(t, "the other one is dead", func() bool {
		stats, err := s.mails.Queue.Stats(t.Context())
		return err == nil && stats.Dead == 1 && s.left() == 0
	})
	if _, err := s.pool.Exec(t.Context(), `UPDATE river_job SET state = 'discarded'`); err != nil { // as if it had failed ten times
		t.Fatal(err)
	}
	if err := before.RetryDead(t.Context(), s.insert); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "River has worked on it again", func() bool {
		counts, err := s.Counts(t.Context())
		return err == nil && counts["old"] == 2
	})
	if n, err := after.RetryDead(t.Context(), s.mails); n != 1 || err != nil {
		t.Errorf("Millrace retries %d, %v, want 1", n, err)
	}
}
