package main

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/lib/pq"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/tracker"
)

const (
	databaseVariable = "MILLRACE_DATABASE_URL"

	databaseURLs = "The URL is one like postgres://USER:PASSWORD@HOST:PORT/DATABASE, in the file of --trackers or in " + databaseVariable + "."

	// databaseTimeout is how long a database may take to show a first row.
	databaseTimeout = 10 * time.Second

	// databaseConnections is how many connections the trackers of one database share.
	databaseConnections = 2
)

// servedTracker is a tracker that the service keeps, as the file of --trackers has it.
type servedTracker struct {
	Name      string `json:"name"`
	Table     string `json:"table"`
	ID        string `json:"id"`
	Where     string `json:"where"`
	Indexed   bool   `json:"indexed"`
	IntegerID bool   `json:"integer_id"`
	Database  string `json:"database"`
}

var (
	errTrackers = errUsage.WithHint(`The file has a list: [{"name":"tasks","table":"tasks","id":"identifier","where":"status IN ('queued', 'running')"}]; "indexed" and "integer_id" are true or false, and "database" is the URL if it is not that of $MILLRACE_DATABASE_URL.`)

	errDatabase = &millrace.Error{
		Code: "database",
		Hint: "The user needs SELECT on the table, and names are spelled as the database stores them. " + databaseURLs,
	}
)

// trackers returns the trackers of --trackers, whose databases have shown that they have their tables. Call close at the end.
func (c *serveCommand) trackers(ctx context.Context, a *app, client rueidis.Client, cfg tracker.Config) (list []*tracker.Tracker, closeAll func(), err error) {
	opened := make(map[string]*sql.DB)
	closeAll = func() {
		for _, db := range opened {
			_ = db.Close() // nothing was written
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	for _, t := range c.tracked {
		url, connect, err := t.database(a)
		if err != nil {
			return nil, closeAll, err
		}
		if opened[url] == nil {
			opened[url] = sql.OpenDB(connect)
			opened[url].SetMaxOpenConns(databaseConnections)
		}
		cfg.Source, err = tracker.SQL(opened[url], tracker.SQLConfig{Table: t.Table, ID: t.ID, Where: t.Where, Indexed: t.Indexed, IntegerID: t.IntegerID})
		if err == nil {
			err = tryTable(ctx, cfg.Source, t)
		}
		if err != nil {
			return nil, closeAll, err
		}
		one, err := tracker.New(client, t.Name, cfg)
		if err != nil {
			return nil, closeAll, err
		}
		list = append(list, one)
	}
	return list, closeAll, nil
}

// readTrackers reads the file of --trackers.
func (c *serveCommand) readTrackers(a *app) error {
	if c.Trackers == "" {
		return nil
	}
	text, err := os.ReadFile(c.Trackers)
	if err != nil {
		return badFile("--trackers", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c.tracked); err != nil {
		return errTrackers.Errorf("--trackers: %s: %s", c.Trackers, err)
	}
	names := make(map[string]bool)
	for i, t := range c.tracked {
		switch {
		case t.Name == "" || t.Table == "" || t.ID == "":
			return errTrackers.Errorf("--trackers: %s: entry %d needs name, table and id", c.Trackers, i+1)
		case names[t.Name]:
			return errTrackers.Errorf("--trackers: %s: there are two trackers %q", c.Trackers, t.Name)
		}
		names[t.Name] = true
		if _, _, err := t.database(a); err != nil {
			return err
		}
	}
	return nil
}

// database returns how to connect to the database of a tracker. Its errors do not quote the URL, which has a password.
func (t servedTracker) database(a *app) (url string, connect *pq.Connector, err error) {
	bad := dial.ErrURL.WithHint(databaseURLs)
	if url = cmp.Or(t.Database, a.env(databaseVariable)); url == "" {
		return url, nil, bad.Errorf("the tracker %q has no database", t.Name)
	}
	cfg, err := pq.NewConfig(url)
	if err == nil {
		if !strings.Contains(url, "sslmode") && a.env("PGSSLMODE") == "" {
			cfg.SSLMode = pq.SSLModePrefer // as psql does
		}
		connect, err = pq.NewConnectorConfig(cfg)
	}
	if err != nil {
		err = bad.Errorf("the URL of the database of the tracker %q cannot be read", t.Name)
	}
	return url, connect, err
}

// tryTable reads a row.
func tryTable(ctx context.Context, source tracker.Source, t servedTracker) error {
	within, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	_, err := source.Rows(within, "", 1)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errDatabase.Errorf("no row within %s: is there an index on %s?", databaseTimeout, t.ID)
	}
	return errDatabase.Errorf("the tracker %q cannot read the table %s: %s", t.Name, t.Table, err)
}
