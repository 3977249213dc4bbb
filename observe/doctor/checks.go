package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

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
	{"memory", func(_ context.Context, s *server) Finding { return checkMemory(s.info["memory"]) }},
	{"persistence", func(ctx context.Context, s *server) Finding {
		return checkPersistence(s.info["persistence"], savePoints(ctx, s))
	}},
	{"replicas", func(_ context.Context, s *server) Finding { return checkReplicas(s.info["replication"]) }},
	{"scripts", checkScripts},
	{"clock", checkClock},
}

// The functions below make findings. The caller adds the name of the check.

func ok(value string) Finding         { return Finding{Level: OK, Value: value} }
func note(value, hint string) Finding { return Finding{Level: Note, Value: value, Hint: hint} }
func warn(value, hint string) Finding { return Finding{Level: Warn, Value: value, Hint: hint} }
func fail(value, hint string) Finding { return Finding{Level: Fail, Value: value, Hint: hint} }
func unknown(hint string) Finding     { return note("unknown", hint) }

func checkVersion(server info.Fields) Finding {
	version := server["redis_version"]
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return unknown("The server does not report its version; Redis 6.2 or Valkey is needed.")
	}
	if valkey := server["valkey_version"]; valkey != "" {
		return ok("Valkey " + valkey)
	}
	if major < 6 || major == 6 && minor < 2 {
		return fail(version, "Use Redis 6.2 or later, or Valkey: scripts use commands that this server lacks.")
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
		return note(policy, "Millrace's live keys have no TTL, so they are safe; your keys with a TTL may be evicted.")
	default:
		return fail(policy, "A full server evicts whole keys, and work with them: CONFIG SET maxmemory-policy noeviction.")
	}
}

// nearFull is the share of maxmemory at which the memory check warns.
const nearFull = 0.8

func checkMemory(memory info.Fields) Finding {
	used, err := strconv.ParseInt(memory["used_memory"], 10, 64)
	if err != nil {
		return unknown("The server does not report how much memory it uses.")
	}
	limit, err := strconv.ParseInt(memory["maxmemory"], 10, 64)
	if err != nil || limit == 0 {
		return note(readable.Bytes(used)+" used, no limit",
			"Without maxmemory the machine may run out first and kill the server: set it below the machine's memory.")
	}
	fill := float64(used) / float64(limit)
	value := fmt.Sprintf("%s of %s used (%.0f%%)", readable.Bytes(used), readable.Bytes(limit), 100*fill)
	if fill < nearFull {
		return ok(value)
	}
	return warn(value, "When memory is full, consumers continue but adds fail with the code full: let consumers catch up, or raise maxmemory.")
}

// checkPersistence reports the loss by a restart or a crash.
func checkPersistence(persistence info.Fields, savePoints string) Finding {
	aof := persistence["aof_enabled"]
	switch {
	case aof == "":
		return unknown("The server does not report whether it writes to disk.")
	case aof == "1" && persistence["aof_last_write_status"] == "err":
		return fail("the append-only file cannot be written", "Look at the server's log and disk: it refuses writes until this is repaired.")
	case persistence["rdb_last_bgsave_status"] == "err":
		return fail("the last snapshot failed", "Look at the server's log, disk and memory: by default it refuses writes until a snapshot succeeds.")
	case aof == "1" && persistence["aof_last_bgrewrite_status"] == "err":
		return warn("the last rewrite of the append-only file failed", "Look at the server's log and disk: the file grows until a rewrite succeeds.")
	case aof == "1":
		return ok("append-only file")
	case savePoints == "unknown":
		return note("no append-only file; snapshots unknown", "A crash loses at least what changed since the last snapshot: CONFIG SET appendonly yes.")
	case savePoints == "":
		return warn("none", "A restart loses all messages, marks and leases: CONFIG SET appendonly yes, and in redis.conf.")
	}
	value := "snapshots only"
	if n, err := strconv.Atoi(persistence["rdb_changes_since_last_save"]); err == nil {
		value += ", " + readable.Count(n, "change") + " since the last"
	}
	return note(value, "A crash loses what changed since the last snapshot: CONFIG SET appendonly yes.")
}

// maxLag is the lag of a replica, in seconds, above which the check warns.
const maxLag = 10

func checkReplicas(replication info.Fields) Finding {
	role := replication["role"]
	switch role {
	case "":
		return unknown("The server does not report its replicas.")
	case "slave":
		return fail("this is a replica of "+replication["master_host"], "Structures write: name the master, the Sentinels (?master_set=NAME) or the cluster.")
	}
	var lines, behind int
	var lag int64
	for key, line := range replication {
		if !isReplicaLine(key) {
			continue
		}
		lines++
		fields := parseFields(line)
		if seconds, err := strconv.ParseInt(fields["lag"], 10, 64); err == nil {
			lag = max(lag, seconds)
		}
		if fields["state"] != "online" {
			behind++
		}
	}
	value := fmt.Sprintf("%d, greatest lag %ds", lines, lag)
	switch {
	case lines == 0:
		return note("none", "If this machine fails, its data is unavailable, and lost if the disk fails.")
	case behind > 0:
		return warn(fmt.Sprintf("%s, %d not in step", value, behind), "A failover to a replica that has not synced would lose data: look at its log.")
	case lag > maxLag:
		return warn(value, "A failover now would lose the newest writes: look at the load and the link of the replica.")
	}
	return ok(value)
}

// isReplicaLine reports whether a key of INFO replication is slave0, slave1, ...
func isReplicaLine(key string) bool {
	number, ok := strings.CutPrefix(key, "slave")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// parseFields reads "ip=...,port=...,state=online".
func parseFields(line string) map[string]string {
	fields := map[string]string{}
	for part := range strings.SplitSeq(line, ",") {
		key, value, _ := strings.Cut(part, "=")
		fields[key] = value
	}
	return fields
}

// maxSkew is the difference of two clocks above which the check warns.
const maxSkew = time.Second

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
	if skew-doubt <= maxSkew {
		return ok(value)
	}
	return warn(value,
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
	for key, line := range engines {
		lua = lua || strings.HasPrefix(key, "engine_") && parseFields(line)["name"] == "LUA"
	}
	switch {
	case !lua:
		return fail("Lua is switched off", "Every call of Millrace is a Lua script: restart the server with its module lua, in a build that has one.")
	case retry.Denied(err):
		return fail(err.Error(), "Every call of Millrace is a script: let this user run them (ACL SETUSER, +eval +evalsha).")
	case retry.Transient(err):
		return fail(err.Error(), "The server was busy, is loading its data or lost the connection: repeat this when it answers.")
	}
	return fail(err.Error(), "Every call of Millrace is a script: allow EVAL and EVALSHA (rename-command in the server's configuration).")
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
