package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/pgtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if text := os.Getenv(asRelay); text != "" {
		beRelay(text)
	}
	redistest.Main(m)
}

// site is a database and a queue.
type site struct {
	*testing.T

	conn  *pgx.Conn
	relay relay
	queue *fairqueue.Queue // as the relay's, straight
}

// schemas counts those that tests made.
var schemas atomic.Int64

// newSite makes the tables, in a schema of their own, and a queue on a Redis.
func newSite(t *testing.T, pg *pgtest.Server, redis *redistest.Server) *site {
	t.Helper()
	own := fmt.Sprint("test", schemas.Add(1))
	dsn := pg.DSN() + " search_path=" + own
	queue, err := fairqueue.New(redis.Client(t), redistest.Name(t), fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, queue: queue, relay: relay{
		dsn: dsn, queue: queue, name: "test", batch: 7, poll: time.Hour, resend: time.Hour, keep: time.Hour,
	}}
	s.conn = s.connect()
	s.exec(`CREATE SCHEMA ` + own)
	s.exec(schema)
	s.exec(`
		CREATE FUNCTION body_is_id() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.body := NEW.id::text::bytea; RETURN NEW; END $$;
		CREATE TRIGGER body_is_id BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION body_is_id()`)
	return s
}

func (s *site) connect() *pgx.Conn {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), s.relay.dsn)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close(context.WithoutCancel(s.Context())) })
	return conn
}

func (s *site) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.conn.Exec(s.Context(), sql, args...); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// order writes n orders of the tenants a, b and c.
func (s *site) order(n int) {
	s.Helper()
	for i := range n {
		err := pgx.BeginFunc(s.Context(), s.conn, func(tx pgx.Tx) error {
			return order(s.Context(), tx, string(rune('a'+i%3)), "x")
		})
		if err != nil {
			s.Fatal(err)
		}
	}
}

// send has a relay work until there is nothing more.
func (s *site) send(r relay) error {
	s.Helper()
	conn := s.connect()
	defer conn.Close(s.Context())
	return r.sendAll(s.Context(), conn, true)
}

func (s *site) mustSend() {
	s.Helper()
	if err := s.send(s.relay); err != nil {
		s.Fatal(err)
	}
}

// rows returns the bodies of all rows, in the order of each tenant.
func (s *site) rows() []string {
	s.Helper()
	rows, err := query(s.Context(), s.conn, pgx.RowTo[string], `SELECT tenant || ' ' || id FROM outbox ORDER BY tenant, id`)
	if err != nil {
		s.Fatal(err)
	}
	return rows
}

// messages returns the messages that wait in the queue, in the order of each tenant.
func (s *site) messages() []string {
	s.Helper()
	var all []string
	for after, more := "", true; more; more = after != "" {
		page, next, err := s.queue.Browse(s.Context(), fairqueue.BrowseConfig{Max: 1000, After: after})
		if err != nil && !errors.Is(err, millrace.ErrNotFound) {
			s.Fatal(err)
		}
		for _, m := range page {
			all = append(all, m.Tenant+" "+string(m.Body))
		}
		after = next
	}
	slices.SortStableFunc(all, func(a, b string) int {
		one, _, _ := strings.Cut(a, " ")
		other, _, _ := strings.Cut(b, " ")
		return strings.Compare(one, other)
	})
	return all
}

// wantOnce checks that each row is one message, in the order of its tenant. Bodies of this test
// are the rows' ids.
func (s *site) wantOnce() {
	s.Helper()
	if rows, messages := s.rows(), s.messages(); !slices.Equal(messages, rows) {
		s.Fatalf("%d rows, %d messages:\n%q\n%q", len(rows), len(messages), rows, messages)
	}
}

// TestRelay has one database server for all.
func TestRelay(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	t.Run("one server", func(t *testing.T) { onOneServer(t, pg) })
	t.Run("killed", func(t *testing.T) { killed(t, pg) })
}

func onOneServer(t *testing.T, pg *pgtest.Server) {
	redis := redistest.Start(t, redistest.Options{})
	for name, test := range map[string]func(*site){
		"a source is one relay's":          oneRelayAtATime,
		"a relay dies after any step":      diesAfterAnyStep,
		"without positions":                withoutPositions,
		"a relay stops for a day":          stopsForADay,
		"two relays and notifications":     twoRelays,
		"Redis loses its last writes":      redisLosesWrites,
		"Redis loses messages of long ago": redisLosesOldMessages,
		"the database is restored":         databaseIsRestored,
		"rows are cleaned":                 rowsAreCleaned,
		"a rolled back order":              rolledBack,
		"the command":                      command,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newSite(t, pg, redis))
		})
	}
}

// oneRelayAtATime: a source that a relay works on is skipped by others.
func oneRelayAtATime(s *site) {
	s.order(9)
	stays, goOn := make(chan bool, 100), make(chan bool)
	slow := s.relay
	slow.at = func(step string) error {
		if step == "lock" {
			stays <- true
			<-goOn
		}
		return nil
	}
	ended := make(chan error)
	conn := s.connect()
	go func() {
		_, err := slow.pass(s.Context(), conn, s.source("a"))
		ended <- err
	}()
	<-stays
	s.mustSend()
	for _, message := range s.messages() {
		if strings.HasPrefix(message, "a ") {
			s.Errorf("another relay sent %q", message)
		}
	}
	close(goOn)
	if err := <-ended; err != nil {
		s.Fatal(err)
	}
	s.mustSend()
	s.wantOnce()
}

// source returns the source of a tenant that has rows.
func (s *site) source(tenant string) (source int) {
	s.Helper()
	if err := s.conn.QueryRow(s.Context(), `SELECT source FROM outbox WHERE tenant = $1 LIMIT 1`, tenant).Scan(&source); err != nil {
		s.Fatal(err)
	}
	return source
}

// diesAfterAnyStep cuts a relay off at every step of every pass; the next one goes on.
func diesAfterAnyStep(s *site) {
	died := errors.New("died")
	for _, step := range []string{"lock", "ask", "read", "send", "number", "mark", "commit"} {
		for nth := range 4 {
			s.order(4)
			r, seen := s.relay, 0
			r.at = func(at string) error {
				if at == step {
					seen++
					if seen > nth {
						return died
					}
				}
				return nil
			}
			if err := s.send(r); !errors.Is(err, died) && seen > nth {
				s.Fatalf("after %s: %v", step, err)
			}
		}
	}
	s.mustSend()
	s.wantOnce()
}

// withoutPositions: a relay under another name knows no position of the first, as if the queue
// stored none. The test of a relay that dies would notice.
func withoutPositions(s *site) {
	s.order(10)
	died := errors.New("died")
	r := s.relay
	r.at = func(at string) error {
		if at == "send" && len(s.messages()) > 0 {
			return died
		}
		return nil
	}
	if err := s.send(r); !errors.Is(err, died) {
		s.Fatal(err)
	}
	s.relay.name = "another"
	s.mustSend()
	if rows, messages := len(s.rows()), len(s.messages()); messages <= rows {
		s.Errorf("%d messages of %d rows, want some twice", messages, rows)
	}
}

// stopsForADay: a relay that stopped in front of its write goes on after others sent its rows and
// many more, and PostgreSQL took its lock away.
func stopsForADay(s *site) {
	s.order(9)
	stays, goOn := make(chan bool), make(chan bool)
	slow := s.relay
	conn := s.connect()
	slow.at = func(step string) error {
		if step == "read" {
			stays <- true
			<-goOn
		}
		return nil
	}
	source := s.source("a")
	if _, err := s.relay.pass(s.Context(), conn, source); err != nil { // numbers
		s.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := slow.pass(s.Context(), conn, source)
		ended <- err
	}()
	<-stays
	s.exec(`SELECT pg_terminate_backend($1)`, conn.PgConn().PID())
	redistest.Eventually(s, "the lock is free", func() bool {
		s.order(3)
		s.mustSend()
		return slices.ContainsFunc(s.messages(), func(m string) bool { return strings.HasPrefix(m, "a ") })
	})
	close(goOn)
	if err := <-ended; err == nil {
		s.Error("the relay that stopped has not noticed it")
	}
	s.mustSend()
	s.wantOnce()
}

// twoRelays send rows while more are written. They wait for notifications: a look without one
// comes in an hour.
func twoRelays(s *site) {
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan error)
	for range 2 {
		go func() { ended <- s.relay.run(ctx) }()
	}
	for range 20 {
		s.order(6)
	}
	redistest.Eventually(s, "all rows are sent", func() bool { return len(s.messages()) == 120 })
	stop()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.Errorf("run = %v, want the end of its context", err)
		}
	}
	s.wantOnce()
}

// redisLosesWrites: the server comes back with an older snapshot, and without the queue.
func redisLosesWrites(s *site) {
	server := redistest.Start(s, redistest.Options{})
	client := server.Client(s)
	var err error
	if s.queue, err = fairqueue.New(client, "lossy", fairqueue.Config{}); err != nil {
		s.Fatal(err)
	}
	s.relay.queue = s.queue
	s.order(20)
	s.mustSend()
	if err := client.Do(s.Context(), client.B().Save().Build()).Error(); err != nil {
		s.Fatal(err)
	}
	s.order(20)
	s.mustSend()
	server.Kill()
	server.Restart()
	redistest.Eventually(s, "Redis has the first 20", func() bool {
		n, err := s.queue.Len(s.Context())
		return err == nil && n == 20
	})
	s.order(2)
	s.mustSend()
	s.wantOnce()

	if err := client.Do(s.Context(), client.B().Flushall().Build()).Error(); err != nil {
		s.Fatal(err)
	}
	s.mustSend() // without a new row
	s.wantOnce()
}

// redisLosesOldMessages: lost messages of last week are not sent again without a command.
func redisLosesOldMessages(s *site) {
	s.order(9)
	s.mustSend()
	if _, err := s.queue.Delete(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.relay.resend = 0
	s.order(9)
	err := s.send(s.relay)
	if !errors.Is(err, errLost) || !strings.Contains(err.Error(), "outbox resume") {
		s.Fatalf("send = %v, want errLost and what to do", err)
	}
	stuck, err := query(s.Context(), s.conn, pgx.RowTo[int], `SELECT source FROM outbox_sources WHERE numbered > 0 ORDER BY source`)
	if err != nil {
		s.Fatal(err)
	}
	for i, source := range stuck {
		if err := s.relay.resume(s.Context(), source, i == 0); err != nil {
			s.Fatal(err)
		}
	}
	s.mustSend()
	var again int
	if err := s.conn.QueryRow(s.Context(), `SELECT count(*) FROM outbox WHERE source = $1`, stuck[0]).Scan(&again); err != nil {
		s.Fatal(err)
	}
	if got, want := len(s.messages()), again+(18-again)/2; got != want {
		s.Errorf("%d messages, want all %d of the source that was resent, and the new ones of the others", got, want)
	}
}

// databaseIsRestored: rows of before are forgotten, and new ones get numbers of their own.
func databaseIsRestored(s *site) {
	s.order(9)
	s.mustSend()
	sent := s.messages()
	s.exec(`DELETE FROM outbox WHERE id > 3`)
	s.exec(`UPDATE outbox_sources SET (numbered, sent) =
		(SELECT coalesce(max(position), 0), coalesce(max(position), 0) FROM outbox o WHERE o.source = outbox_sources.source)`)
	s.order(9)
	s.mustSend()
	if got, want := len(s.messages()), len(sent)+9; got != want {
		s.Errorf("%d messages, want %d", got, want)
	}
}

func rowsAreCleaned(s *site) {
	s.order(30)
	s.mustSend()
	s.relay.keep = 0
	s.mustSend()
	if rows := s.rows(); len(rows) != 0 {
		s.Errorf("%d rows are left", len(rows))
	}
	s.order(5)
	s.mustSend()
	if messages := s.messages(); len(messages) != 35 {
		s.Errorf("%d messages, want 35", len(messages))
	}
}

func rolledBack(s *site) {
	s.order(1)
	failed := errors.New("no stock")
	err := pgx.BeginFunc(s.Context(), s.conn, func(tx pgx.Tx) error {
		return errors.Join(order(s.Context(), tx, "a", "x"), failed)
	})
	if !errors.Is(err, failed) {
		s.Fatal(err)
	}
	s.order(1)
	s.mustSend()
	s.wantOnce()
	if n := len(s.messages()); n != 2 {
		s.Errorf("%d messages, want 2", n)
	}
}

// command runs the verbs.
func command(s *site) {
	s.exec(`DROP TABLE outbox, outbox_sources, orders`)
	server := redistest.Start(s, redistest.Options{})
	flags := []string{"--postgres", s.relay.dsn, "--redis", server.URL()}
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan error)
	start := func(out io.Writer, args ...string) { ended <- run(ctx, append(flags, args...), out) }
	for _, args := range [][]string{{"schema"}, {"schema"}, {"order", "acme", "a lamp"}} {
		if err := run(ctx, append(flags, args...), io.Discard); err != nil {
			s.Fatalf("%q: %v", args, err)
		}
	}
	printed, out := io.Pipe()
	go start(io.Discard, "relay")
	go start(out, "work")
	line := make([]byte, 100)
	n, err := printed.Read(line)
	if got, want := string(line[:n]), "acme: ordered: a lamp\n"; got != want || err != nil {
		s.Errorf("work prints %q, %v, want %q", got, err, want)
	}
	stop()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.Errorf("the end of the command = %v, want that of its context", err)
		}
	}
	for _, args := range [][]string{{}, {"resume", "1"}, {"resume", "x", "--skip"}, {"nothing"}} {
		if err := run(s.Context(), append(flags, args...), io.Discard); err == nil {
			s.Errorf("%q is no error", args)
		}
	}
}
