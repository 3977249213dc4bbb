package directory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// Remark is a finding about the directory. Its text is a sentence without a period, about the
// server if there is one.
type Remark struct {
	finding.Finding

	Server string // its address; empty for the directory as a whole
}

// Examine says how safe the map is: it asks all servers of the directory at the same time, for
// two seconds at most. It changes nothing.
func (d *Directory) Examine(ctx context.Context) []Remark {
	ctx, cancel := script.Within(ctx, examineTimeout)
	defer cancel()
	var viewTTL time.Duration
	if m := d.known.Load(); m != nil {
		viewTTL = m.Settings.Effective().ViewTTL
	}
	return d.Store.Examine(ctx, viewTTL)
}

// examineTimeout is how long a server has to answer an examination.
const examineTimeout = 2 * time.Second

// Verify returns ErrUnfit unless the servers of a directory keep its promises, before a fleet is
// created in it. It changes nothing.
func (d *Directory) Verify(ctx context.Context) error {
	for _, r := range d.Examine(ctx) {
		if r.Severity == finding.Critical || r.Code == finding.Refused {
			return ErrUnfit.Errorf("the directory cannot keep a fleet: %s", strings.TrimSpace(r.Server+" "+r.Text)).WithHint(r.Advice)
		}
	}
	return nil
}

// serverLine starts a server that keeps a directory.
const serverLine = `redis-server --save "" --appendonly yes --appendfsync always --maxmemory-policy noeviction`

// keeperSettings are the settings that decide whether a change of the map lasts.
var keeperSettings = []string{"appendfsync", "no-appendfsync-on-rewrite", "save", "stop-writes-on-bgsave-error"}

// Examine implements Store.
func (r *Redis) Examine(ctx context.Context, _ time.Duration) (found []Remark) {
	addr := slices.Collect(maps.Keys(r.run.Client.Nodes()))[0]
	add := func(severity finding.Severity, code, text, advice string) {
		found = append(found, Remark{finding.New(severity, code, text, advice), addr})
	}
	is, settings, err := r.ask(ctx)
	switch {
	case retry.Denied(err):
		add(finding.Note, finding.Refused, "does not let this user read INFO and its settings", "Use the user of agents: docs/SECURITY.md.")
		return found
	case err != nil:
		add(finding.Critical, "silent", "does not answer: "+err.Error(), "Start it again, with its files.")
		return found
	}
	switch {
	case is["role"] != "master":
		add(finding.Critical, "no_master", "is a replica and takes no writes", "The directory is one server, which is no replica: REPLICAOF NO ONE, if no other one is the directory by now.")
	case is["connected_slaves"] != "0":
		add(finding.Warning, "replicas", "has replicas, which nothing uses: one that is promoted lacks the newest maps", "Take the replicas away, and any Sentinel. For a directory of several servers use etcd.")
	}
	switch {
	case is["aof_enabled"] != "1":
		add(finding.Critical, "no_aof", "has no append-only file: a restart loses the map", "CONFIG SET appendonly yes, and start it with "+serverLine+".")
	case is["aof_last_write_status"] == "err":
		add(finding.Critical, "aof_fails", "cannot write its append-only file", "Look at its log and its disk.")
	}
	if settings["appendfsync"] != "always" {
		add(finding.Critical, "no_fsync", "confirms changes of the map before they are on its disk: its appendfsync is "+settings["appendfsync"], "CONFIG SET appendfsync always, and start it with "+serverLine+".")
	}
	if settings["no-appendfsync-on-rewrite"] == "yes" {
		add(finding.Critical, "no_fsync_on_rewrite", "confirms changes of the map before they are on its disk while it rewrites its file", "CONFIG SET no-appendfsync-on-rewrite no, and in its file.")
	}
	if policy := is["maxmemory_policy"]; policy != "noeviction" {
		add(finding.Critical, "evicts", "may evict what it keeps: its maxmemory-policy is "+policy, "CONFIG SET maxmemory-policy noeviction, and in its file.")
	}
	if is.Int("maxmemory") > 0 && is.Int("maxmemory") < is.Int("used_memory")+finding.DirectorySpace {
		add(finding.Critical, "full", "has no memory left for changes of the map", "CONFIG SET maxmemory 0, and in its file.")
	}
	if is["rdb_last_bgsave_status"] == "err" && settings["save"] != "" && settings["stop-writes-on-bgsave-error"] != "no" {
		add(finding.Critical, "save_fails", "refuses writes since a snapshot failed", `Look at its log and its disk; CONFIG SET save "".`)
	}
	if len(found) == 0 {
		add(finding.OK, "durable", "writes each change of the map to its disk before it confirms it", "")
	}
	return found
}

// ask reads the server's INFO and settings.
func (r *Redis) ask(ctx context.Context) (is info.Fields, settings map[string]string, err error) {
	c := r.run.Client
	cmds := []rueidis.Completed{c.B().Info().Build()}
	for _, name := range keeperSettings { // Redis 6.2 takes one at a time
		cmds = append(cmds, c.B().ConfigGet().Parameter(name).Build())
	}
	replies, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) { return c.DoMulti(ctx, cmds...), nil })
	if err != nil {
		return nil, nil, own(ctx, err)
	}
	text, err := replies[0].ToString()
	settings = map[string]string{}
	for i, name := range keeperSettings {
		values, failed := replies[i+1].AsStrMap()
		settings[name], err = values[name], errors.Join(err, failed)
	}
	return info.Parse(text), settings, own(ctx, err)
}
