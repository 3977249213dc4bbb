package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// shuffleQueue is a queue as programs of github.com/replicate/go/queue use it. With MILLRACE_REPLICATE, the folder of
// its queue package, its own scripts write and read; otherwise commands that do the same.
type shuffleQueue struct {
	t           *testing.T
	client      rueidis.Client
	name        string
	read, write string // scripts; empty for none
}

func newShuffleQueue(t *testing.T, client rueidis.Client) *shuffleQueue {
	q := &shuffleQueue{t: t, client: client, name: "old:" + redistest.Name(t)}
	if folder := os.Getenv("MILLRACE_REPLICATE"); folder != "" {
		for name, text := range map[string]*string{"read.lua": &q.read, "write.lua": &q.write} {
			b, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			*text = string(b)
		}
	}
	return q
}

func (q *shuffleQueue) do(args ...string) rueidis.RedisResult {
	return q.client.Do(context.Background(), q.client.B().Arbitrary(args...).Build())
}

func (q *shuffleQueue) stream(i int) string { return fmt.Sprint(q.name, ":s", i) }

// add writes a message of a tenant to one stream of so many.
func (q *shuffleQueue) add(streams, stream int, tenant, text string) error {
	if q.write != "" {
		return q.do("EVAL", q.write, "1", q.name, "3600", fmt.Sprint(streams), "1", fmt.Sprint(stream), "tenant", tenant, "text", text).Error()
	}
	const add = `if tonumber(redis.call('HGET', KEYS[1], 'streams') or 1) < tonumber(ARGV[1]) then redis.call('HSET', KEYS[1], 'streams', ARGV[1]) end
		return redis.call('XADD', KEYS[2], '*', 'tenant', ARGV[2], 'text', ARGV[3])`
	return q.do("EVAL", add, "2", q.name+":meta", q.stream(stream), fmt.Sprint(streams), tenant, text).Error()
}

// take reads a message for a reader of the group "workers". It returns no key if there is none.
func (q *shuffleQueue) take(reader string) (key, id string, fields map[string]string, err error) {
	if q.read != "" {
		found, err := q.do("EVAL", q.read, "1", q.name, "3600", "workers", reader).AsXRead()
		for key, entries := range found {
			return key, entries[0].ID, entries[0].FieldValues, nil
		}
		if rueidis.IsRedisNil(err) {
			err = nil
		}
		return "", "", nil, err
	}
	n, err := q.do("HGET", q.name+":meta", "streams").AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", "", nil, err
	}
	for _, i := range rand.Perm(int(max(1, n))) {
		_ = q.do("XGROUP", "CREATE", q.stream(i), "workers", "0", "MKSTREAM").Error() // BUSYGROUP, most often
		found, err := q.do("XREADGROUP", "GROUP", "workers", reader, "COUNT", "1", "STREAMS", q.stream(i), ">").AsXRead()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return "", "", nil, err
		}
		e := found[q.stream(i)][0]
		return q.stream(i), e.ID, e.FieldValues, nil
	}
	return "", "", nil, nil
}

// abandon has a reader take a message, and die. It reports whether there was one.
func (q *shuffleQueue) abandon(reader string) bool {
	key, id, _, err := q.take(reader)
	if err == nil && key != "" { // an hour ago
		err = q.do("XCLAIM", key, "workers", reader, "0", id, "IDLE", "3600000", "JUSTID").Error()
	}
	if err != nil {
		q.t.Fatal(err)
	}
	return key != ""
}

// done removes a message.
func (q *shuffleQueue) done(key, id string) error {
	return errors.Join(q.do("XACK", key, "workers", id).Error(), q.do("XDEL", key, id).Error())
}

// legacy is the shuffle queue as a queue replaces it.
func (q *shuffleQueue) legacy() Legacy {
	return Legacy{Shuffle: q.name, Group: "workers", ClaimAfter: time.Minute, Draft: func(fields map[string]string) (Draft, error) {
		return Draft{Tenant: fields["tenant"], Body: []byte(fields["text"])}, nil
	}}
}

// TestShuffleQueueIsReadUntilItIsEmpty: messages of all its streams, also of one that a shrink made invisible to old readers, of
// streams that come later, and without the meta key, which expires; with ids that two streams have.
func TestShuffleQueueIsReadUntilItIsEmpty(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	old := newShuffleQueue(t, client)
	cfg := Config{Legacy: []Legacy{{Shuffle: old.name, Group: "workers"}}}
	q := openOn(t, client, redistest.Name(t), cfg)
	left := map[string]bool{}
	add := func(stream int, id string) {
		t.Helper()
		text := fmt.Sprint(len(left), " in ", stream)
		if err := old.do("XADD", old.stream(stream), id, "text", text).Error(); err != nil {
			t.Fatal(err)
		}
		left[fmt.Sprintf(`{"text":"%s"}`, text)] = true
	}
	read := func() {
		t.Helper()
		for len(left) > 0 {
			m := eventually(t, q)
			stream := string(m.Body[strings.LastIndex(string(m.Body), " ")+1 : len(m.Body)-2])
			if want := "legacy:s" + stream; m.Tenant != want || !left[string(m.Body)] {
				t.Fatalf("got %q of %q, want one of %v of %q", m.Body, m.Tenant, left, want)
			}
			delete(left, string(m.Body))
			ack(t, q, m)
		}
	}
	for stream := range 16 {
		add(stream, "17-1")
		add(stream, "17-2")
	}
	read()
	if err := old.do("HSET", old.name+":meta", "streams", "100").Error(); err != nil {
		t.Fatal(err)
	}
	add(99, "*")
	add(100, "*")
	add(163, "*")
	read()
	add(3, "*")
	add(226, "*") // behind the last one that exists
	read()
	for stream := range 300 {
		n, err := old.do("XLEN", old.stream(stream)).AsInt64()
		if err != nil || n != 0 {
			t.Fatalf("stream %d holds %d, %v, want none", stream, n, err)
		}
	}
	_, err := q.Read(t.Context(), ReadConfig{})
	wantError(t, err, ErrEmpty)
}

// TestSeveralLegacyStreams take turns, and one that cannot be read stops no other.
func TestSeveralLegacyStreams(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	old := newShuffleQueue(t, client)
	for i := range 40 {
		for _, err := range []error{
			old.do("XADD", old.name, fmt.Sprint(i+1, "-1"), "n", fmt.Sprint("plain ", i)).Error(),
			old.do("XADD", old.stream(i%4), fmt.Sprint(i+1, "-1"), "n", fmt.Sprint("shuffle ", i)).Error(),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := old.do("SET", old.name+":text", "x").Error(); err != nil {
		t.Fatal(err)
	}
	draft := func(fields map[string]string) (Draft, error) {
		return Draft{Tenant: "t", Body: []byte(fields["n"])}, nil
	}
	q := openOn(t, client, redistest.Name(t), Config{Legacy: []Legacy{
		{Stream: old.name + ":text", Group: "g", Draft: draft},
		{Stream: old.name, Group: old.name, Draft: draft},
		{Shuffle: old.name, Group: "workers", Draft: draft},
	}})
	seen, last := map[string]int{}, map[string]int{}
	for n := 1; n <= 80; n++ {
		m := eventually(t, q)
		ack(t, q, m)
		kind, number, _ := strings.Cut(string(m.Body), " ")
		seen[kind]++
		var i int
		if _, err := fmt.Sscan(number, &i); err != nil {
			t.Fatal(err)
		}
		if kind == "plain" && i != last[kind] {
			t.Errorf("entry %d of the plain stream came as number %d", i, last[kind])
		}
		last[kind]++
		if n == 40 && (seen["plain"] < 5 || seen["shuffle"] < 5) {
			t.Errorf("the first 40 messages are %v, want at least five of each", seen)
		}
	}
	if seen["plain"] != 40 || seen["shuffle"] != 40 {
		t.Errorf("got %v, want 40 of each", seen)
	}
}

// TestShuffleOfDeadReaders: what old readers and a process of the queue held when they died comes, of all streams.
func TestShuffleOfDeadReaders(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	old := newShuffleQueue(t, client)
	q := openOn(t, client, redistest.Name(t), Config{Legacy: []Legacy{old.legacy()}})
	left := map[string]bool{}
	for i := range 60 {
		text := fmt.Sprint(i)
		left[text] = true
		if err := old.add(8, i%8, "t", text); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if !old.abandon([]string{"old", q.legacy.sources[0].consumer()}[i%2]) {
			t.Fatal("there was no message to take")
		}
	}
	for len(left) > 0 {
		m := eventually(t, q)
		ack(t, q, m)
		if !left[string(m.Body)] {
			t.Fatalf("%q came twice", m.Body)
		}
		delete(left, string(m.Body))
	}
}

// TestShuffleOnACluster: its streams are in one slot, or the log says so.
func TestShuffleOnACluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t, 3, 0).Client(t)
	bad := newLegacySource(openOn(t, client, redistest.Name(t), Config{}), Legacy{Shuffle: "q", Group: "g"})
	_, err := bad.take(t.Context(), 1)
	wantError(t, err, millrace.ErrBadArgument)
	old := newShuffleQueue(t, client)
	old.name = "{" + old.name + "}"
	for stream := range 5 {
		if err := old.do("XADD", old.stream(stream), "*", "n", "x").Error(); err != nil {
			t.Fatal(err)
		}
	}
	q := openOn(t, client, redistest.Name(t), Config{Legacy: []Legacy{{Shuffle: old.name, Group: "g"}}})
	for range 5 {
		ack(t, q, eventually(t, q))
	}
}

// TestFromReplicate follows docs/FROM_REPLICATE.md: two old writers and two old readers are replaced one at a time,
// in any order that the page allows, while they all work. An old reader is killed with a message in its hands, and an old
// writer shrinks the queue. At each moment every message is handled, and none twice.
func TestFromReplicate(t *testing.T) {
	t.Parallel()
	rounds := 4
	if redistest.More() {
		rounds = 40
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			newMove(t).run()
		})
	}
}

// replicateMove is a move from a shuffle queue to a queue.
type replicateMove struct {
	t      *testing.T
	client rueidis.Client
	old    *shuffleQueue
	q      *Queue
	random *rand.Rand

	mu      sync.Mutex
	handled map[string]int
	written int
	streams int // of old writers
}

func newMove(t *testing.T) *replicateMove {
	client := redistest.Shared(t).Client(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	m := &replicateMove{
		t: t, client: client, old: newShuffleQueue(t, client), random: rand.New(rand.NewPCG(seed, 0)),
		handled: map[string]int{}, streams: 16,
	}
	m.q = m.open()
	return m
}

func (m *replicateMove) open() *Queue {
	return openOn(m.t, redistest.Shared(m.t).Client(m.t), m.old.name+":new", Config{Legacy: []Legacy{m.old.legacy()}})
}

func (m *replicateMove) note(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handled[text]++
}

// oldReader reads until it is stopped.
func (m *replicateMove) oldReader(name string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			key, id, fields, err := m.old.take(name)
			switch {
			case err != nil:
				m.t.Errorf("an old reader: %v", err)
				return
			case key == "":
				select {
				case <-time.After(5 * time.Millisecond): // where it would block
				case <-ctx.Done():
				}
			default:
				m.note(fields["text"])
				if err := m.old.done(key, id); err != nil {
					m.t.Errorf("an old reader: %v", err)
				}
			}
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	m.t.Cleanup(stop)
	return stop
}

func (m *replicateMove) newReader() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	q := m.open()
	go func() {
		ended <- q.Consume(ctx, ConsumeConfig{Concurrency: 2}, func(_ context.Context, message Message) error {
			m.note(string(message.Body))
			return nil
		})
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	m.t.Cleanup(stop)
	return stop
}

// batch has each writer write some messages.
func (m *replicateMove) batch(newWriters int) {
	for writer := range 2 {
		for range 10 {
			text, tenant := fmt.Sprint("m", m.written), fmt.Sprint("t", m.random.IntN(5))
			m.written++
			var err error
			if writer < newWriters {
				_, err = m.q.Write(m.t.Context(), Draft{Tenant: tenant, Body: []byte(text)})
			} else {
				err = m.old.add(m.streams, m.random.IntN(m.streams), tenant, text)
			}
			if err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

// settled waits until all messages are handled, each once.
func (m *replicateMove) settled(after string) {
	m.t.Helper()
	redistest.Eventually(m.t, "all messages are handled after "+after, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.handled) == m.written
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range slices.Sorted(maps.Keys(m.handled)) {
		if n := m.handled[text]; n != 1 {
			m.t.Errorf("after %s, %s was handled %d times, want once", after, text, n)
		}
	}
}

func (m *replicateMove) run() {
	oldReaders := []func(){m.oldReader("old 1"), m.oldReader("old 2")}
	newReaders, newWriters := 0, 0
	m.batch(0)
	m.settled("the start")
	for len(oldReaders) > 0 || newWriters < 2 || newReaders < 2 {
		var step string
		switch choice := m.random.IntN(4); {
		case choice == 0 && newReaders < 2:
			step = "a new reader"
			m.newReader()
			newReaders++
		case choice == 1 && len(oldReaders) > 0 && newReaders > 0:
			step = "an old reader less"
			oldReaders[0]()
			oldReaders = oldReaders[1:]
			if len(oldReaders) == 0 {
				step += ", killed with a message"
				m.batch(newWriters)
				m.old.abandon("killed") // if the new ones have left one
			}
		case choice == 2 && newReaders > 0 && newWriters < 2:
			step = "a new writer"
			newWriters++
		case choice == 3 && m.streams > 4 && newWriters < 2:
			step = "a shrink"
			m.streams /= 2
			if err := m.old.do("HSET", m.old.name+":meta", "streams", fmt.Sprint(m.streams)).Error(); err != nil {
				m.t.Fatal(err)
			}
			if newReaders > 0 { // in the stream that is invisible to old readers now
				if err := m.old.do("XADD", m.old.stream(m.streams), "*", "tenant", "t", "text", fmt.Sprint("m", m.written)).Error(); err != nil {
					m.t.Fatal(err)
				}
				m.written++
			}
		default:
			continue
		}
		m.batch(newWriters)
		m.settled(step)
	}
	redistest.Eventually(m.t, "the old streams are empty", func() bool {
		for stream := range 16 {
			if n, err := m.old.do("XLEN", m.old.stream(stream)).AsInt64(); err != nil || n != 0 {
				return false
			}
		}
		return true
	})
}
