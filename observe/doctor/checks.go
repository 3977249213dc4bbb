package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/retry"
)

// serverChecks are the checks of one server, in the order of the report.
var serverChecks = []struct {
	name string
	run  func(context.Context, *server) Finding
}{
	{"version", func(_ context.Context, s *server) Finding { return checkVersion(s.info["server"]) }},
	{"eviction", func(_ context.Context, s *server) Finding { return checkEviction(s.info["memory"]) }},
	{"memory", func(_ context.Context, s *server) Finding { return checkMemory(s.info["memory"], s.member) }},
	{"persistence", func(ctx context.Context, s *server) Finding {
		return checkPersistence(s.info["persistence"], savePoints(ctx, s))
	}},
	{"replicas", func(_ context.Context, s *server) Finding { return checkReplicas(s.info["replication"]) }},
	{"scripts", checkScripts},
	{"clock", checkClock},
	{"slowlog", checkSlowLog},
}

// The functions below make findings without the name of their check.

func ok(text string) Finding                     { return of(OK, "ok", text, "") }
func note(code, text, advice string) Finding     { return of(Note, code, text, advice) }
func warning(code, text, advice string) Finding  { return of(Warning, code, text, advice) }
func critical(code, text, advice string) Finding { return of(Critical, code, text, advice) }
func unknown(advice string) Finding              { return note("unknown", "unknown", advice) }

func of(severity Severity, code, text, advice string) Finding {
	return Finding{Finding: finding.New(severity, code, text, advice)}
}

func (f Finding) in(check string) Finding {
	f.Check = check
	return f
}

func in(check string, all []Finding) []Finding {
	for i := range all {
		all[i].Check = check
	}
	return all
}

func checkVersion(server info.Fields) Finding {
	version := server["redis_version"]
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return unknown("The server does not report its version; Redis 6.2 or Valkey is needed.")
	}
	if valkey := server["valkey_version"]; valkey != "" {
		return ok("Valkey " + valkey)
	}
	if major < finding.OldestMajor || major == finding.OldestMajor && minor < finding.OldestMinor {
		return critical("too_old", version, "Use Redis 6.2 or later, or Valkey: scripts use commands that this server lacks.")
	}
	return ok(version)
}

func checkEviction(memory info.Fields) Finding {
	switch policy := memory["maxmemory_policy"]; {
	case policy == "":
		return unknown("The server does not report its maxmemory-policy; it should be noeviction.")
	case policy == "noeviction":
		return ok(policy)
	case strings.HasPrefix(policy, "volatile-"):
		return note("evicts_with_ttl", policy, "Structures keep live data without a TTL, so they stand it; your keys with a TTL may be evicted. Counters over several servers refuse it: they need noeviction.")
	default:
		return critical("evicts", policy, "A full server evicts whole keys, and work with them: CONFIG SET maxmemory-policy noeviction.")
	}
}

func checkMemory(memory info.Fields, member bool) Finding {
	used, err := strconv.ParseInt(memory["used_memory"], 10, 64)
	if err != nil {
		return unknown("The server does not report how much memory it uses.")
	}
	limit, err := strconv.ParseInt(memory["maxmemory"], 10, 64)
	if err != nil || limit == 0 {
		return note("no_maxmemory", readable.Bytes(used)+" used, no limit",
			"Without maxmemory the machine may run out first and kill the server: set it below the machine's memory.")
	}
	value := fmt.Sprintf("%s of %s used (%.0f%%)", readable.Bytes(used), readable.Bytes(limit), 100*float64(used)/float64(limit))
	if !finding.NearlyFull(used, limit, member) {
		return ok(value)
	}
	return warning("nearly_full", value, "When memory is full, consumers continue but adds fail with the code full: let consumers catch up, or raise maxmemory.")
}

// checkPersistence reports the loss by a restart or a crash.
func checkPersistence(persistence info.Fields, savePoints string) Finding {
	aof := persistence["aof_enabled"]
	switch {
	case aof == "":
		return unknown("The server does not report whether it writes to disk.")
	case aof == "1" && persistence["aof_last_write_status"] == "err":
		return critical("aof_fails", "the append-only file cannot be written", "Look at the server's log and disk: it refuses writes until this is repaired.")
	case persistence["rdb_last_bgsave_status"] == "err":
		return critical("save_fails", "the last snapshot failed", "Look at the server's log, disk and memory: by default it refuses writes until a snapshot succeeds.")
	case aof == "1" && persistence["aof_last_bgrewrite_status"] == "err":
		return warning("rewrite_fails", "the last rewrite of the append-only file failed", "Look at the server's log and disk: the file grows until a rewrite succeeds.")
	case aof == "1":
		return ok("append-only file")
	case savePoints == "unknown":
		return note("no_aof", "no append-only file; snapshots unknown", "A crash loses at least what changed since the last snapshot: CONFIG SET appendonly yes.")
	case savePoints == "":
		return warning("not_persisted", "none", "A restart loses all messages, marks and leases: CONFIG SET appendonly yes, and in redis.conf.")
	}
	value := "snapshots only"
	if n, err := strconv.Atoi(persistence["rdb_changes_since_last_save"]); err == nil {
		value += ", " + readable.Count(n, "change") + " since the last"
	}
	return note("no_aof", value, "A crash loses what changed since the last snapshot: CONFIG SET appendonly yes.")
}

func checkReplicas(replication info.Fields) Finding {
	role := replication["role"]
	switch role {
	case "":
		return unknown("The server does not report its replicas.")
	case "slave":
		return critical("is_replica", "this is a replica of "+replication["master_host"], "Structures write: name the master, the Sentinels (?master_set=NAME) or the cluster.")
	}
	replicas := replication.Replicas()
	var behind int
	var lag int64
	for _, r := range replicas {
		lag = max(lag, r.Int("lag"))
		if r["state"] != "online" {
			behind++
		}
	}
	value := fmt.Sprintf("%d, greatest lag %ds", len(replicas), lag)
	switch {
	case len(replicas) == 0:
		return note("no_replica", "none", "If this machine fails, its data is unavailable, and lost if the disk fails.")
	case behind > 0:
		return warning("not_in_step", fmt.Sprintf("%s, %d not in step", value, behind), "A failover to a replica that has not synced would lose data: look at its log.")
	case lag > finding.ReplicaLag:
		return warning("lag", value, "A failover now would lose the newest writes: look at the load and the link of the replica.")
	}
	return ok(value)
}

// compareClocks compares the server's clock with this machine's, which was read
// before and after.
func compareClocks(server, before, after time.Time) Finding {
	doubt := after.Sub(before) / 2
	skew := server.Sub(before.Add(doubt))
	value := fmt.Sprintf("%s ahead of this machine's", readable.Duration(skew))
	if skew < 0 {
		skew = -skew
		value = fmt.Sprintf("%s behind this machine's", readable.Duration(skew))
	}
	if skew <= max(doubt, time.Millisecond) {
		value = "in step with this machine's"
	}
	value += fmt.Sprintf(", within %s", doubt.Round(time.Microsecond))
	if skew-doubt <= finding.ClockSkew {
		return ok(value)
	}
	return warning("clock", value,
		"Millrace uses the server's clock, but scores that producers on this machine set are off by as much: let the server set them, or run NTP.")
}

// savePoints returns the setting save: "" if the server makes no snapshots, and
// "unknown" if it does not report the setting.
func savePoints(ctx context.Context, s *server) string {
	settings, err := s.ask(ctx, s.client.B().ConfigGet().Parameter("save").Build()).AsStrMap()
	if save, ok := settings["save"]; ok && err == nil {
		return save
	}
	return "unknown"
}

// checkScripts runs a script by its text, and then by its hash.
func checkScripts(ctx context.Context, s *server) Finding {
	const source, sha = "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
	err := s.ask(ctx, s.client.B().Eval().Script(source).Numkeys(0).Build()).Error()
	if err == nil {
		err = s.ask(ctx, s.client.B().Evalsha().Sha1(sha).Numkeys(0).Build()).Error()
	}
	if err != nil {
		text, _ := s.ask(ctx, s.client.B().Info().Section("scriptingengines").Build()).ToString()
		return scriptsFailed(err, info.Parse(text))
	}
	if cached := s.info["memory"]["number_of_cached_scripts"]; cached != "" {
		return ok("run; " + cached + " cached")
	}
	return ok("run")
}

// scriptsFailed says why a script did not run. Engines is the server's list of its
// scripting engines: empty, unless Lua is a module of it, as of Valkey since 9.1.
//
// It decides by codes. A command that the server does not know and an engine that it lacks
// have none.
func scriptsFailed(err error, engines info.Fields) Finding {
	lua := engines["engines_count"] == ""
	for key := range engines {
		lua = lua || strings.HasPrefix(key, "engine_") && engines.Pairs(key)["name"] == "LUA"
	}
	switch {
	case !lua:
		return critical("no_lua", "Lua is switched off", "Every call of Millrace is a Lua script: restart the server with its module lua, in a build that has one.")
	case retry.Denied(err):
		return critical(finding.Refused, err.Error(), "Every call of Millrace is a script: let this user run them (ACL SETUSER, +eval +evalsha).")
	case retry.Transient(err):
		return critical("busy", err.Error(), "The server was busy, is loading its data or lost the connection: repeat this when it answers.")
	}
	return critical("no_scripts", err.Error(), "Every call of Millrace is a script: allow EVAL and EVALSHA (rename-command in the server's configuration).")
}

func checkClock(ctx context.Context, s *server) Finding {
	before := time.Now()
	parts, err := s.ask(ctx, s.client.B().Time().Build()).AsIntSlice()
	after := time.Now()
	if err != nil || len(parts) != 2 {
		return unknown("The server does not report its time, which every structure needs: allow TIME.")
	}
	return compareClocks(time.Unix(parts[0], parts[1]*1000), before, after)
}
