package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/readable"
)

// The checks that need no more than what a server says of itself.

// oldestMajor and oldestMinor are the first version of Redis that will do.
const oldestMajor, oldestMinor = 6, 2

func checkVersion(server map[string]string) Finding {
	const check = "version"
	version := server["redis_version"]
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return unknown(check, "The server does not tell its version; Redis 6.2 or Valkey is needed.")
	}
	if valkey := server["valkey_version"]; valkey != "" {
		return Finding{check, OK, "Valkey " + valkey, ""}
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return Finding{check, Fail, version, "Use Redis 6.2 or later, or Valkey: scripts use commands that this server lacks."}
	}
	return Finding{check, OK, version, ""}
}

func checkEviction(memory map[string]string) Finding {
	const check = "eviction"
	switch policy := memory["maxmemory_policy"]; {
	case policy == "":
		return unknown(check, "The server does not tell its maxmemory-policy; it should be noeviction.")
	case policy == "noeviction":
		return Finding{check, OK, policy, ""}
	case strings.HasPrefix(policy, "volatile-"):
		return Finding{check, Note, policy, "Millrace's live keys have no TTL, so they are safe; keys of yours that have one may go."}
	default:
		return Finding{check, Fail, policy, "A full server throws away whole keys, dirty marks among them: CONFIG SET maxmemory-policy noeviction."}
	}
}

// nearFull is the share of maxmemory from which on the doctor warns.
const nearFull = 0.8

func checkMemory(memory map[string]string) Finding {
	const check = "memory"
	used, err := strconv.ParseInt(memory["used_memory"], 10, 64)
	if err != nil {
		return unknown(check, "The server does not tell how much memory it uses.")
	}
	limit, err := strconv.ParseInt(memory["maxmemory"], 10, 64)
	if err != nil || limit == 0 {
		return Finding{
			check, Note, readable.Bytes(used) + " used, no limit",
			"Without maxmemory the machine may run out first and kill the server: set it below the machine's memory.",
		}
	}
	fill := float64(used) / float64(limit)
	value := fmt.Sprintf("%s of %s used (%.0f%%)", readable.Bytes(used), readable.Bytes(limit), 100*fill)
	if fill < nearFull {
		return Finding{check, OK, value, ""}
	}
	return Finding{check, Warn, value, "When it is full, consumers go on but adds fail with the code full: let consumers catch up, or raise maxmemory."}
}

// checkPersistence judges what a restart or a crash would lose. The save points
// are as the server's setting has them, or "unknown".
func checkPersistence(persistence map[string]string, savePoints string) Finding {
	const check = "persistence"
	aof := persistence["aof_enabled"]
	switch {
	case aof == "":
		return unknown(check, "The server does not tell whether it writes to disk.")
	case aof == "1" && persistence["aof_last_write_status"] == "err":
		return Finding{check, Fail, "the append-only file cannot be written", "Look at the server's log and disk: it refuses writes until this is mended."}
	case persistence["rdb_last_bgsave_status"] == "err":
		return Finding{check, Fail, "the last snapshot failed", "Look at the server's log, disk and memory: by default it refuses writes until a snapshot succeeds."}
	case aof == "1" && persistence["aof_last_bgrewrite_status"] == "err":
		return Finding{check, Warn, "the last rewrite of the append-only file failed", "Look at the server's log and disk: the file grows until a rewrite succeeds."}
	case aof == "1":
		return Finding{check, OK, "append-only file", ""}
	case savePoints == "unknown":
		return Finding{check, Note, "no append-only file; snapshots unknown", "A crash loses at least what changed since the last snapshot: CONFIG SET appendonly yes."}
	case savePoints == "":
		return Finding{check, Warn, "none", "A restart loses everything, messages, marks and leases: CONFIG SET appendonly yes, and in redis.conf."}
	}
	value := "snapshots only"
	if n, err := strconv.Atoi(persistence["rdb_changes_since_last_save"]); err == nil {
		value += ", " + readable.Count(n, "change") + " since the last"
	}
	return Finding{check, Note, value, "A crash loses what changed since the last snapshot: CONFIG SET appendonly yes."}
}

// maxLag is how many seconds a replica may be behind before the doctor warns.
const maxLag = 10

func checkReplicas(replication map[string]string) Finding {
	const check = "replicas"
	role := replication["role"]
	switch role {
	case "":
		return unknown(check, "The server does not tell of its replicas.")
	case "slave":
		return Finding{check, Fail, "this is a replica of " + replication["master_host"], "Structures write: name the master, the Sentinels (?master_set=NAME) or the cluster."}
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
		return Finding{check, Note, "none", "When this machine is lost, so is what it holds, until it comes back."}
	case behind > 0:
		return Finding{check, Warn, fmt.Sprintf("%s, %d not in step", value, behind), "A failover to a replica that has not synced would lose data: look at its log."}
	case lag > maxLag:
		return Finding{check, Warn, value, "A failover now would lose what the replica has not got: look at its load and its link."}
	}
	return Finding{check, OK, value, ""}
}

// isReplicaLine reports whether a key of INFO replication is slave0, slave1, ...
func isReplicaLine(key string) bool {
	number, ok := strings.CutPrefix(key, "slave")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// parseFields reads "ip=...,port=...,state=online".
func parseFields(line string) map[string]string {
	fields := make(map[string]string)
	for part := range strings.SplitSeq(line, ",") {
		key, value, _ := strings.Cut(part, "=")
		fields[key] = value
	}
	return fields
}

// maxSkew is how far two clocks may be apart before the doctor warns.
const maxSkew = time.Second

// compareClocks judges the server's clock, read at some moment between before
// and after by this machine's clock.
func compareClocks(server, before, after time.Time) Finding {
	const check = "clock"
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
		return Finding{check, OK, value, ""}
	}
	return Finding{
		check, Warn, value,
		"Millrace itself uses the server's clock; but scores that producers on this machine set by their own are off by as much: use now, or run NTP.",
	}
}
