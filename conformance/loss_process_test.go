package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// lossWorkerEnv makes the test binary a worker process: "URL queue".
const lossWorkerEnv = "MILLRACE_TEST_LOSS_WORKER"

// beLossWorker reads batches. It handles all of a batch, says so on its standard output, and acknowledges when it is told to on
// its standard input. Its notes are in two lists: the ids that it has handled, and the codes of errors.
func beLossWorker(spec string) error {
	url, name, _ := strings.Cut(spec, " ")
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	q, err := fairqueue.New(client, name, fairqueue.Config{})
	if err != nil {
		return err
	}
	ctx, told := context.Background(), bufio.NewReader(os.Stdin)
	note := func(list, what string) error {
		return client.Do(ctx, client.B().Rpush().Key("{"+name+"}"+list).Element(what).Build()).Error()
	}
	for {
		messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: 10, Block: time.Minute, Visibility: time.Second})
		if err != nil {
			return err
		}
		for _, m := range messages {
			if err := note("handled", string(m.Body)); err != nil {
				return err
			}
		}
		fmt.Println("a batch")
		if _, err := told.ReadString('\n'); err != nil {
			return err
		}
		for _, m := range messages {
			if _, err := q.Ack(ctx, m.Receipt); err != nil {
				if err := note("errors", "stale"); err != nil {
					return err
				}
			}
		}
		fmt.Println("acknowledged")
	}
}

// withWorker starts a load beside a worker process, which has handled a batch and not acknowledged it.
func withWorker(t *testing.T, l *steady) (client rueidis.Client, worker *redistest.Child) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	client = server.Client(t)
	l.start(client, client)
	l.pause()
	l.confirms(60)
	worker = redistest.StartChild(t, lossWorkerEnv+"="+server.URL()+" "+l.name)
	worker.Lines(1)
	l.resume()
	return client, worker
}

// notes adds the messages that a worker process has handled.
func (l *steady) notes(client rueidis.Client) {
	l.t.Helper()
	ids, err := client.Do(l.t.Context(), client.B().Lrange().Key("{"+l.name+"}handled").Start(0).Stop(-1).Build()).AsStrSlice()
	must(l.t, "LRANGE", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, body := range ids {
		id, _, _ := strings.Cut(body, " ")
		l.handled[id]++
	}
}

func (l *steady) wantTwice() {
	l.t.Helper()
	if m := l.measure(); m.twice == 0 {
		l.t.Error("nothing was handled twice: the row does not play its fault")
	}
}

func lossWorkerKilled(t *testing.T, l *steady) {
	client, worker := withWorker(t, l)
	worker.Kill()
	l.handles(60)
	l.drain()
	l.notes(client)
	l.wantTwice()
}

func lossWorkerStopped(t *testing.T, l *steady) {
	client, worker := withWorker(t, l)
	signal := func(s syscall.Signal) { must(t, "a signal", syscall.Kill(worker.PID(), s)) }
	signal(syscall.SIGSTOP)
	ids, err := client.Do(t.Context(), client.B().Lrange().Key("{"+l.name+"}handled").Start(0).Stop(-1).Build()).AsStrSlice()
	must(t, "LRANGE", err)
	redistest.Eventually(t, "another worker has what the stopped one had", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, body := range ids {
			if id, _, _ := strings.Cut(body, " "); l.handled[id] == 0 {
				return false
			}
		}
		return true
	})
	signal(syscall.SIGCONT)
	worker.Tell("go on")
	worker.Lines(1)
	l.drain()
	l.notes(client)
	l.wantTwice()
	refused, err := client.Do(t.Context(), client.B().Llen().Key("{"+l.name+"}errors").Build()).AsInt64()
	must(t, "LLEN", err)
	if refused < int64(len(ids)) {
		t.Errorf("%d of %d late acknowledgements were refused, want all", refused, len(ids))
	}
	l.saw("stale")
}

// everysec is for how long a server with appendfsync everysec may hold writes back.
const everysec = 2 * time.Second

// killed kills a server under load while messages wait, and starts it again.
func killed(t *testing.T, l *steady, server *redistest.Server, lasts time.Duration) {
	t.Helper()
	began, client := time.Now(), server.Client(t)
	l.start(client, client)
	l.backlog()
	redistest.Eventually(t, "the load has lasted long enough", func() bool { return time.Since(began) > lasts })
	l.strikes()
	server.Kill()
	server.Restart()
	l.resume()
	l.handles(60)
	l.drain()
}

func lossRedisKilled(t *testing.T, l *steady) {
	killed(t, l, redistest.Start(t, redistest.Options{}), 0)
}

func lossRedisKilledWithAOF(t *testing.T, l *steady) {
	killed(t, l, redistest.Start(t, redistest.Options{AOF: true, Args: []string{"--appendfsync", "everysec"}}), everysec+time.Second/2)
	l.sealBefore(everysec)
}

// save has the server write a snapshot, with all that is confirmed at its begin.
func (l *steady) save(client rueidis.Client) {
	l.t.Helper()
	l.seal()
	must(l.t, "SAVE", client.Do(l.t.Context(), client.B().Arbitrary("SAVE").Build()).Error())
}

func lossRedisKilledWithRDB(t *testing.T, l *steady) {
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	l.start(client, client)
	l.backlog()
	l.save(client)
	l.resume()
	l.backlog()
	server.Kill()
	server.Restart()
	l.resume()
	l.handles(60)
	l.drain()
	l.wantTwice()
}

// lossOutbox is lossRedisKilledWithRDB with writers that keep a table of their messages, under the positions of a source each. The queue
// loses positions with messages, so writers find out, and write the missing ones again.
func lossOutbox(t *testing.T, l *steady) {
	var mu sync.Mutex
	tables := map[string][]fairqueue.Draft{}
	l.write = func(ctx context.Context, d fairqueue.Draft) error {
		mu.Lock()
		defer mu.Unlock()
		source, number, _ := strings.Cut(d.DedupeID, "-")
		if rows := tables[source]; fmt.Sprint(len(rows)) == number {
			d.Source, d.Position, d.DedupeID = source, int64(len(rows)+1), ""
			tables[source] = append(rows, d)
		}
		table := tables[source]
		_, err := l.writer.WriteBatch(ctx, table[len(table)-1:]...)
		for errors.Is(err, fairqueue.ErrGap) {
			at, failed := l.writer.Sources().Position(ctx, source)
			if failed != nil {
				return failed
			}
			l.saw(fairqueue.ErrGap.Code)
			_, err = l.writer.WriteBatch(ctx, table[at:]...)
		}
		return err
	}
	lossRedisKilledWithRDB(t, l)
}

func powerLoss(t *testing.T, l *steady, fsync string, wait func(m *redistest.Machine)) {
	t.Helper()
	machine := redistest.StartMachine(t, redistest.Options{AOF: true, Args: []string{"--appendfsync", fsync}})
	client := machine.Client(t)
	l.start(client, client)
	l.backlog()
	wait(machine)
	l.seal()
	l.strikes()
	machine.LosePower()
	machine.Restart()
	l.resume()
	l.handles(60)
	l.drain()
}

func lossPowerWithEverysec(t *testing.T, l *steady) {
	began := time.Now()
	powerLoss(t, l, "everysec", func(m *redistest.Machine) {
		redistest.Eventually(t, "a sync is some time ago, and another one more than two seconds", func() bool {
			return time.Since(began) > everysec+time.Second/2 && time.Since(m.LastSync()) > 300*time.Millisecond
		})
	})
	l.sealBefore(everysec)
}

func lossPowerWithAlways(t *testing.T, l *steady) {
	powerLoss(t, l, "always", func(*redistest.Machine) {})
}

func lossRestoredDump(t *testing.T, l *steady) {
	dir := t.TempDir()
	server := redistest.Start(t, redistest.Options{Dir: dir})
	client := server.Client(t)
	l.start(client, client)
	l.backlog()
	l.save(client)
	dump, err := os.ReadFile(filepath.Join(dir, "dump.rdb"))
	must(t, "the dump", err)
	l.resume()
	l.backlog()
	sealed := l.sealed
	l.save(client) // the data of the moment, which the operator replaces
	l.sealed = sealed
	server.Kill()
	must(t, "the dump", os.WriteFile(filepath.Join(dir, "dump.rdb"), dump, 0o600))
	server.Restart()
	l.resume()
	l.handles(60)
	l.drain()
	l.wantTwice()
}

// lossClockSetBack sets the server's clock back by an hour while messages wait, are delayed and in flight.
func lossClockSetBack(t *testing.T, l *steady) { clockSet(t, l, -time.Hour) }

// lossClockSetAhead has the visibility of messages in flight end early.
func lossClockSetAhead(t *testing.T, l *steady) {
	clockSet(t, l, time.Hour)
	l.wantTwice()
}

func clockSet(t *testing.T, l *steady, ahead time.Duration) {
	t.Helper()
	machine := redistest.StartMachine(t, redistest.Options{})
	client := machine.Client(t)
	l.start(client, client)
	l.backlog()
	_, err := l.writer.Write(t.Context(), fairqueue.Draft{Tenant: "late", Body: []byte("late"), Delay: time.Second})
	must(t, "Write", err)
	l.mu.Lock()
	l.confirmed = append(l.confirmed, confirmed{"late", time.Now()})
	l.mu.Unlock()
	held, ids := dequeue(t, l.queue, 10), map[string]string{}
	for _, m := range held {
		ids[m.ID] = l.begin(m)
	}
	machine.SetClock(t, ahead)
	l.resume()
	l.confirms(60)
	l.handles(60)
	if ahead > 0 {
		redistest.Eventually(t, "others have what was in flight", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.handled[ids[held[0].ID]] > 1
		})
	}
	for _, m := range held {
		l.acknowledge(t.Context(), m, ids[m.ID])
	}
	l.drain()
}
