package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/fairqueue"
)

// relay sends the rows of an outbox to a queue. Any number of relays may run.
//
// Each source of rows goes through the same steps, again and again, in one transaction each time:
//
//	lock    its row in outbox_sources; another relay skips it
//	ask     the queue for the source's position: how far it has the rows
//	send    the rows behind that position, which an earlier transaction numbered
//	mark    how far the source is sent
//	number  the next rows; their numbers count from the commit on
//
// So a number is durable before its row is sent, and never changes. The queue takes each number
// once and in order, from any relay and however late: see Draft.Source of package fairqueue. A
// relay that dies anywhere leaves nothing that the next one has to guess.
type relay struct {
	dsn   string
	queue *fairqueue.Queue
	name  string // of this outbox: the first part of the names of its sources

	batch  int           // rows that one transaction sends
	poll   time.Duration // between looks, if no notification comes
	check  time.Duration // between looks at sources without new rows: the queue may have lost messages
	resend time.Duration // rows up to this age are sent again after the queue lost them
	keep   time.Duration // how long rows are kept after they were sent

	at func(step string) error // of tests: after each step
}

const (
	retryAfter   = time.Second      // after an error
	redisTimeout = 10 * time.Second // of the calls in a transaction

	// A relay that hangs gives its locks back after idleTimeout.
	idleTimeout = "SET idle_in_transaction_session_timeout = '30s'"
)

// errLost means that a source needs a person.
var errLost = errors.New("the queue lost messages that are too old to be sent again unasked")

// run sends rows until ctx ends.
func (r *relay) run(ctx context.Context) error {
	for {
		err := database(ctx, r.dsn, func(conn *pgx.Conn) error { return r.session(ctx, conn) })
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		slog.WarnContext(ctx, "the relay starts again", "error", err)
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// session sends rows over one connection until that fails.
func (r *relay) session(ctx context.Context, conn *pgx.Conn) error {
	for _, command := range []string{idleTimeout, "LISTEN outbox"} {
		if _, err := conn.Exec(ctx, command); err != nil {
			return err
		}
	}
	for checked := (time.Time{}); ; {
		all := time.Since(checked) >= r.check
		if all {
			checked = time.Now()
		}
		err := r.sendAll(ctx, conn, all)
		if conn.IsClosed() || ctx.Err() != nil {
			return err
		} else if err != nil {
			slog.WarnContext(ctx, "not all rows are sent", "error", err)
		}
		wait, cancel := context.WithTimeout(ctx, r.poll)
		_, err = conn.WaitForNotification(wait)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
	}
}

// sendAll works on sources until none has anything to do: on those with new rows, or first on
// all. A source in trouble rests, and keeps no other waiting.
func (r *relay) sendAll(ctx context.Context, conn *pgx.Conn, all bool) error {
	var failed error
	for resting := map[int]bool{}; ; {
		sources, err := query(ctx, conn, pgx.RowTo[int], `
			SELECT source FROM outbox_sources s
			WHERE $1 OR sent < numbered OR EXISTS (SELECT FROM outbox o WHERE o.source = s.source AND position IS NULL)
			ORDER BY random()`, all)
		if err != nil {
			return errors.Join(failed, err)
		}
		more := false
		for _, source := range sources {
			if resting[source] {
				continue
			}
			worked, err := r.pass(ctx, conn, source)
			if err != nil {
				resting[source], failed = true, errors.Join(failed, fmt.Errorf("source %d: %w", source, err))
			}
			if more = more || worked; conn.IsClosed() || ctx.Err() != nil {
				return failed
			}
		}
		if !more {
			return failed
		}
	}
}

// pass works on one source, in one transaction.
func (r *relay) pass(ctx context.Context, conn *pgx.Conn, source int) (worked bool, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		if rollback := tx.Rollback(context.WithoutCancel(ctx)); !errors.Is(rollback, pgx.ErrTxClosed) {
			err = errors.Join(err, rollback)
		}
	}()

	var numbered, sent int64
	err = tx.QueryRow(ctx, `SELECT numbered, sent FROM outbox_sources WHERE source = $1 FOR UPDATE SKIP LOCKED`, source).Scan(&numbered, &sent)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil // another relay works on it
	} else if err = errors.Join(err, r.step("lock")); err != nil {
		return false, err
	}
	before := sent
	numbered, sent, err = r.ask(ctx, tx, source, numbered, sent)
	if err = errors.Join(err, r.step("ask")); err != nil {
		return false, err
	}
	// Rows that the queue took before an error count: the next pass continues behind them.
	sent, sendErr := r.send(ctx, tx, source, sent)
	if err = r.step("send"); err != nil {
		return false, err
	}
	added, err := tx.Exec(ctx, `
		WITH new AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM outbox WHERE source = $1 AND position IS NULL ORDER BY id LIMIT $3)
		UPDATE outbox SET position = $2 + n, numbered_at = now() FROM new WHERE outbox.id = new.id`, source, numbered, r.batch)
	if err = errors.Join(err, r.step("number")); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, `UPDATE outbox_sources SET numbered = $2, sent = $3 WHERE source = $1 AND (numbered, sent) <> ($2, $3)`,
		source, numbered+added.RowsAffected(), sent)
	if err = errors.Join(err, r.step("mark")); err != nil {
		return false, err
	}
	cleaned, err := tx.Exec(ctx, `
		DELETE FROM outbox WHERE source = $1 AND position <= $2 AND numbered_at < now() - $3::interval
			AND position < $4 + (SELECT min(position) FROM outbox WHERE source = $1 AND position IS NOT NULL)`,
		source, sent, r.keep, r.batch)
	if err != nil {
		return false, err
	}
	if err := tx.Commit(ctx); err != nil {
		return false, err
	}
	worked = sent != before || added.RowsAffected() > 0 || cleaned.RowsAffected() > 0
	return worked, errors.Join(sendErr, r.step("commit"))
}

// ask compares the table with the queue, and returns the last number and the last position that
// is sent. The queue is right about itself: a relay may have died between send and mark.
func (r *relay) ask(ctx context.Context, tx pgx.Tx, source int, numbered, sent int64) (int64, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	position, err := r.queue.Sources().Position(ctx, r.source(source))
	if err != nil {
		return 0, 0, err
	}
	if position > numbered {
		// The database is older than the queue, as after a restore. New rows must not get
		// numbers that the queue has.
		slog.WarnContext(ctx, "the database lost rows that were sent", "source", source, "database", numbered, "queue", position)
		return position, position, nil
	}
	if position < sent {
		// The queue is older than the database: Redis lost its last writes, and messages and
		// position together. The rows are still here.
		var rows int64
		err := tx.QueryRow(ctx, `SELECT count(*) FROM outbox WHERE source = $1 AND position > $2 AND position <= $3 AND numbered_at > now() - $4::interval`,
			source, position, sent, r.resend).Scan(&rows)
		if err != nil {
			return 0, 0, err
		}
		if rows != sent-position {
			return 0, 0, fmt.Errorf("%w: it has position %d of %d sent; run: outbox resume %d --resend, or --skip", errLost, position, sent, source)
		}
		slog.WarnContext(ctx, "the queue lost messages, which are sent again", "source", source, "messages", rows)
	}
	return numbered, position, nil
}

// send writes the next messages of a source, and returns up to which position the queue has
// them.
func (r *relay) send(ctx context.Context, tx pgx.Tx, source int, sent int64) (int64, error) {
	drafts, err := query(ctx, tx, func(row pgx.CollectableRow) (fairqueue.Draft, error) {
		d := fairqueue.Draft{Source: r.source(source)}
		err := row.Scan(&d.Position, &d.Tenant, &d.Body)
		return d, err
	}, `SELECT position, tenant, body FROM outbox WHERE source = $1 AND position > $2 ORDER BY position LIMIT $3`, source, sent, r.batch)
	if err = errors.Join(err, r.step("read")); err != nil || len(drafts) == 0 {
		return sent, err
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	written, err := r.queue.WriteBatch(ctx, drafts...)
	for i, w := range written {
		if w.ID == "" && !w.Duplicate {
			break // refused
		}
		sent = drafts[i].Position
	}
	return sent, err
}

// resume has a source go on after errLost: with the rows that are still there, or with those that
// were never sent.
func (r *relay) resume(ctx context.Context, source int, resend bool) error {
	return database(ctx, r.dsn, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return r.reset(ctx, tx, source, resend) })
	})
}

// reset sets how far a source is, in the table and in the queue.
func (r *relay) reset(ctx context.Context, tx pgx.Tx, source int, resend bool) error {
	var sent int64
	if err := tx.QueryRow(ctx, `SELECT sent FROM outbox_sources WHERE source = $1 FOR UPDATE`, source).Scan(&sent); err != nil {
		return err
	}
	if resend {
		position, err := r.queue.Sources().Position(ctx, r.source(source))
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `SELECT coalesce(min(position) - 1, $2) FROM outbox WHERE source = $1 AND position > $3`, source, sent, position).Scan(&sent)
		if err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `UPDATE outbox_sources SET sent = $2 WHERE source = $1`, source, sent); err != nil {
		return err
	}
	return r.queue.Sources().SetPosition(ctx, r.source(source), sent)
}

// source is the name of a source in the queue.
func (r *relay) source(source int) string { return fmt.Sprintf("outbox %s/%d", r.name, source) }

func (r *relay) step(name string) error {
	if r.at == nil {
		return nil
	}
	return r.at(name)
}

// query returns all rows.
func query[T any](ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}
