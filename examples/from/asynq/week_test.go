package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/examples/from/asynq/after"
	"github.com/millrace/millrace/examples/from/asynq/before"
	"github.com/millrace/millrace/examples/from/asynq/move"
	"github.com/millrace/millrace/examples/from/ledger"
	"github.com/millrace/millrace/examples/from/mail"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// asWorker makes the test binary an old worker of a Redis, whose handlers of "hold@..." never end.
const asWorker = "FROM_ASYNQ_TEST_AS_WORKER"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if address := os.Getenv(asWorker); address != "" {
		beWorker(address)
	}
	redistest.Main(m)
}

func beWorker(address string) {
	client, err := dial.Redis(context.Background(), "redis://"+address)
	if err != nil {
		panic(err)
	}
	book := ledger.New(client)
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: address}, quick())
	err = server.Start(before.Mux(func(ctx context.Context, m mail.Mail) error {
		if strings.HasPrefix(m.To, "hold") {
			fmt.Println("holds")
			select {}
		}
		return book.Send(ctx, m)
	}))
	if err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test
	os.Exit(0)
}

// quick returns the settings of the old server, with times that suit a test.
func quick() asynq.Config {
	cfg := before.Config()
	cfg.TaskCheckInterval, cfg.DelayedTaskCheckInterval, cfg.LogLevel = 5*time.Millisecond, 20*time.Millisecond, asynq.FatalLevel
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Millisecond }
	return cfg
}

// shop is a Redis with both queues.
type shop struct {
	*testing.T
	ledger.Ledger

	redis     *redistest.Server
	client    rueidis.Client
	old       asynq.RedisClientOpt
	enqueues  *asynq.Client
	inspector *asynq.Inspector
	q         *fairqueue.Queue

	keys []string // of all mails that are to be sent
}

func newShop(t *testing.T) *shop {
	redis := redistest.Start(t, redistest.Options{TCP: true})
	client := redis.Client(t)
	s := &shop{T: t, Ledger: ledger.New(client), redis: redis, client: client, old: asynq.RedisClientOpt{Addr: redis.Addr()}}
	s.enqueues, s.inspector = asynq.NewClient(s.old), asynq.NewInspector(s.old)
	t.Cleanup(func() { _, _ = s.enqueues.Close(), s.inspector.Close() })
	var err error
	if s.q, err = after.Open(client); err != nil {
		t.Fatal(err)
	}
	return s
}

// oldWorker works until it is stopped.
func (s *shop) oldWorker() (stop func()) {
	server := asynq.NewServer(s.old, quick())
	if err := server.Start(before.Mux(s.Send)); err != nil {
		s.Fatal(err)
	}
	stop = sync.OnceFunc(server.Shutdown)
	s.Cleanup(stop)
	return stop
}

func (s *shop) newWorker() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	q, err := after.Open(s.redis.Client(s.T))
	if err != nil {
		s.Fatal(err)
	}
	go func() { ended <- after.Serve(ctx, q, s.Send) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.Errorf("a new worker: %v", err)
		}
	})
	s.Cleanup(stop)
	return stop
}

// enqueue enqueues a mail with the old or the new producer.
func (s *shop) enqueue(new bool, m mail.Mail, delay time.Duration) {
	s.Helper()
	var err error
	if new {
		err = after.Enqueue(s.Context(), s.q, m, delay)
	} else {
		err = before.Enqueue(s.Context(), s.enqueues, m, delay)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// mails enqueues some of each kind.
func (s *shop) mails(new bool) {
	s.Helper()
	for _, to := range []string{"ann@a.example", "bob@b.example", "fails@c.example", "busy@c.example", "late@d.example"} {
		m := mail.Mail{Customer: fmt.Sprint("c", rand.IntN(3)), To: to, Key: fmt.Sprint("order ", len(s.keys))}
		s.keys = append(s.keys, m.Key)
		if to == "late@d.example" {
			s.enqueue(new, m, time.Second)
			s.enqueue(new, m, time.Second) // the request came twice
			continue
		}
		s.enqueue(new, m, 0)
	}
	s.enqueue(new, mail.Mail{Customer: "c0", To: "no@a.example", Key: fmt.Sprint("bad ", len(s.keys))}, 0)
}

// oldLeft returns how many tasks wait or run in asynq.
func (s *shop) oldLeft() int {
	s.Helper()
	info, err := s.inspector.GetQueueInfo("mails")
	if err != nil {
		s.Fatal(err)
	}
	return info.Pending + info.Active + info.Scheduled + info.Retry + info.Aggregating
}

// newLeft returns how many messages wait or run.
func (s *shop) newLeft() int {
	s.Helper()
	stats, err := s.q.Stats(s.Context())
	if err != nil && !errors.Is(err, millrace.ErrNotFound) { // the first write creates it
		s.Fatal(err)
	}
	return stats.Waiting + stats.Delayed + stats.InFlight
}

// TestWeek follows docs/FROM_ASYNQ.md. Two producers and three workers with asynq are replaced in any order that the page allows,
// also back and forth, while all of them work, and one old worker is killed with tasks in its hands. At each moment each
// mail is handled, and none twice.
func TestWeek(t *testing.T) {
	t.Parallel()
	rounds := 2
	if redistest.More() {
		rounds = 6
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			week(newShop(t))
		})
	}
}

func week(s *shop) {
	const held = 3
	doomed := redistest.StartChild(s.T, asWorker+"="+s.redis.Addr())
	var inHands []string
	for i := range held {
		m := mail.Mail{Customer: "c0", To: "hold@a.example", Key: fmt.Sprint("held ", i)}
		inHands = append(inHands, m.Key)
		s.enqueue(false, m, 0)
	}
	doomed.Lines(held)

	oldWorkers, newWorkers := []func(){s.oldWorker(), s.oldWorker()}, []func(){}
	var isNew [2]bool // producers
	killed, steps, back := false, 0, 0
	for len(oldWorkers) > 0 {
		steps++
		producer := rand.IntN(2)
		allNew := isNew == [2]bool{true, true}
		var step string
		switch choice := rand.IntN(6); {
		case choice == 0 && len(newWorkers) < 2:
			step = "a new worker"
			newWorkers = append(newWorkers, s.newWorker())
		case choice == 1 && len(newWorkers) > 0 && !isNew[producer]:
			step = "a new producer"
			isNew[producer] = true
		case choice == 2 && isNew[producer] && back < 2:
			step = "a producer that goes back"
			isNew[producer] = false
			back++
		case choice == 3 && len(newWorkers) > 0 && isNew == [2]bool{} && s.newLeft() == 0:
			step = "a new worker less"
			newWorkers[0]()
			newWorkers = newWorkers[1:]
		case choice == 4 && !killed:
			step = "a killed worker"
			killed = true
			redistest.Eventually(s.T, "it has nothing else in its hands", func() bool {
				info, err := s.inspector.GetQueueInfo("mails")
				return err == nil && info.Active == held
			})
			doomed.Kill()
			for _, stop := range oldWorkers { // two that look at once may both find a task, and then it is handled twice
				stop()
			}
			s.leasesEnd()
			oldWorkers = []func(){s.oldWorker()} // a worker looks for lost tasks when it starts, and each minute
			s.keys = append(s.keys, inHands...)
		case choice == 5 && (len(oldWorkers) > 1 || allNew && s.oldLeft() == 0):
			step = "an old worker less"
			oldWorkers[0]()
			oldWorkers = oldWorkers[1:]
		default:
			continue
		}
		for i := range isNew {
			s.mails(isNew[i])
		}
		s.WantOnce(s.T, step, s.keys)
		if s.Failed() {
			s.Fatalf("step %d", steps)
		}
	}
	if n := s.oldLeft(); n != 0 || !killed {
		s.Errorf("asynq has %d tasks at the end, want none", n)
	}
}

// leasesEnd has a minute pass for the leases of a killed worker: asynq's times cannot be set.
func (s *shop) leasesEnd() {
	s.Helper()
	const leases = "asynq:{mails}:lease"
	ids, err := s.client.Do(s.Context(), s.client.B().Zrange().Key(leases).Min("0").Max("-1").Build()).AsStrSlice()
	if err != nil {
		s.Fatal(err)
	}
	for _, id := range ids {
		if strings.HasPrefix(id, "held") {
			past := float64(time.Now().Add(-time.Minute).Unix())
			if err := s.client.Do(s.Context(), s.client.B().Zadd().Key(leases).ScoreMember().ScoreMember(past, id).Build()).Error(); err != nil {
				s.Fatal(err)
			}
		}
	}
}

// TestSameKeyOnBothSides: a request that comes again on the other side of the change, and a day's tick on both, are handled twice
// and sent once, because of their keys.
func TestSameKeyOnBothSides(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.oldWorker()
	s.newWorker()
	m := mail.Mail{Customer: "acme", To: "ann@a.example", Key: "order 17"}
	s.enqueue(false, m, 0)
	s.enqueue(true, m, 0)

	scheduler := asynq.NewScheduler(s.old, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	if err := before.Schedule(scheduler); err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	defer scheduler.Shutdown()
	if _, err := s.enqueues.EnqueueContext(t.Context(), asynq.NewTask("digest", nil), asynq.Queue("mails")); err != nil { // its tick
		t.Fatal(err)
	}
	if err := after.Schedule(t.Context(), s.q); err != nil {
		t.Fatal(err)
	}
	if _, err := s.q.Schedules().Run(t.Context(), "digest"); err != nil {
		t.Fatal(err)
	}
	digest := mail.Digest(time.Now()).Key
	redistest.Eventually(t, "both are handled twice", func() bool {
		counts, err := s.Counts(t.Context())
		return err == nil && len(counts) <= 3 && counts["order 17"] == 2 && (counts[digest] == 2 || len(counts) == 3) // midnight
	})
	sent, err := s.client.Do(t.Context(), s.client.B().Hkeys().Key("ledger:sent").Build()).AsStrSlice()
	if err != nil || len(sent) > 3 || len(sent) < 2 {
		t.Errorf("sent are %q, %v, want each once", sent, err)
	}
}

// TestDead: both sides keep mails that are not worth a retry, and try them again.
func TestDead(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.oldWorker()
	s.newWorker()
	for _, new := range []bool{false, true} {
		s.enqueue(new, mail.Mail{Customer: "acme", To: "no@a.example", Key: fmt.Sprint(new)}, 0)
	}
	redistest.Eventually(t, "both are dead", func() bool {
		info, err := s.inspector.GetQueueInfo("mails")
		stats, err2 := s.q.Stats(t.Context())
		return errors.Join(err, err2) == nil && info.Archived == 1 && stats.Dead == 1
	})
	if n, err := before.RetryDead(s.inspector); n != 1 || err != nil {
		t.Errorf("asynq retries %d, %v, want 1", n, err)
	}
	if n, err := after.RetryDead(t.Context(), s.q); n != 1 || err != nil {
		t.Errorf("Millrace retries %d, %v, want 1", n, err)
	}
}

// TestMove moves tasks that are due in a month, retries and archived tasks.
func TestMove(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	month := 30 * 24 * time.Hour
	for i := range 3 {
		s.enqueue(false, mail.Mail{Customer: "acme", To: "ann@a.example", Key: fmt.Sprint("month ", i)}, month)
	}
	s.enqueue(false, mail.Mail{Customer: "acme", To: "ann@a.example", Key: "now"}, 30*time.Second)
	s.enqueue(false, mail.Mail{Customer: "acme", To: "no@a.example", Key: "bad"}, 0)
	stop := s.oldWorker()
	redistest.Eventually(t, "a task is archived", func() bool {
		info, err := s.inspector.GetQueueInfo("mails")
		return err == nil && info.Archived == 1
	})
	stop()
	tenant := func(*asynq.TaskInfo) string { return "acme" }
	if n, err := move.Move(t.Context(), s.inspector, s.inspector.ListScheduledTasks, "mails", s.q, tenant); n != 3 || err != nil {
		t.Errorf("moved are %d, %v, want the three of next month", n, err)
	}
	if n, err := move.Move(t.Context(), s.inspector, s.inspector.ListArchivedTasks, "mails", s.q, tenant); n != 1 || err != nil {
		t.Errorf("moved are %d, %v, want the archived one", n, err)
	}
	// One that was written and not deleted, since its mover was killed, is moved again.
	s.enqueue(false, mail.Mail{Customer: "acme", To: "ann@a.example", Key: "month 0"}, month)
	if n, err := move.Move(t.Context(), s.inspector, s.inspector.ListScheduledTasks, "mails", s.q, tenant); n != 1 || err != nil {
		t.Errorf("moved are %d, %v, want the one again", n, err)
	}
	delayed, _, err := s.q.Browse(t.Context(), fairqueue.BrowseConfig{State: fairqueue.Delayed})
	if err != nil || len(delayed) != 3 {
		t.Fatalf("%d are delayed, %v, want 3", len(delayed), err)
	}
	for _, m := range delayed {
		if left := time.Until(m.Until); left < month-time.Minute || left > month || m.Headers["type"] != "mail" {
			t.Errorf("%s waits for %v, with %v, want a month", m.Body, left, m.Headers)
		}
	}
	info, err := s.inspector.GetQueueInfo("mails")
	if err != nil || info.Size != 1 || info.Scheduled != 1 {
		t.Errorf("asynq has %+v, %v, want the task that is due soon", info, err)
	}
}
