package directory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/info"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// Examiner is a Directory that can say how safe the map is with it, and whether an agent
// leads. `fleet check` asks it.
type Examiner interface {
	// Examine asks all servers of the directory at the same time, for two seconds at most. It
	// changes nothing.
	Examine(ctx context.Context) []Remark

	// Leader returns the name of the agent that leads, empty for none.
	Leader(ctx context.Context) (string, error)
}

// Remark is a statement about the directory.
type Remark struct {
	Level  Level
	Code   string // for programs
	Server string // its address; empty for the directory as a whole
	What   string // a sentence without a period, about the server if there is one
	Hint   string // what to do; empty at the level OK
}

// Level says how bad a statement about a fleet is.
type Level string

// The levels, the best first.
const (
	OK      Level = "ok"
	Unknown Level = "unknown" // a server did not say
	Warn    Level = "warn"    // it will cause trouble one day
	Fail    Level = "fail"    // a promise does not hold
)

var _ Examiner = (*Redis)(nil)

// examineTimeout is how long a server has to answer an examination.
const examineTimeout = 2 * time.Second

// Leader implements Examiner.
func (d *Redis) Leader(ctx context.Context) (string, error) {
	name, _, err := Ask(ctx, d.servers, int(d.master.Load()), func(ctx context.Context, s *script.Runner) (string, error) {
		b := s.Client.B()
		replies := s.Client.DoMulti(ctx, b.Time().Build(), b.Hmget().Key(baseKey+":agent").Field("name", "until_ms").Build())
		now, err := replies[0].AsIntSlice()
		if err != nil {
			return "", err
		}
		lease, err := replies[1].ToArray()
		if err != nil {
			return "", err
		}
		// It is nil if nobody ever led.
		if until, _ := lease[1].AsInt64(); until <= now[0]*1000+now[1]/1000 {
			return "", nil
		}
		return lease[0].ToString()
	})
	return name, err
}

// keeper is a server of the directory, as it describes itself.
type keeper struct {
	addr     string
	info     info.Fields
	settings map[string]string // nil if the user may not read them
	err      error
}

// keeperSettings are the settings that decide whether a change of the map lasts.
var keeperSettings = []string{"appendfsync", "min-replicas-to-write", "min-replicas-max-lag", "save", "stop-writes-on-bgsave-error"}

// Examine implements Examiner.
func (d *Redis) Examine(ctx context.Context) []Remark {
	ctx, cancel := script.Within(ctx, examineTimeout)
	defer cancel()
	var all []*keeper
	var asking sync.WaitGroup
	for _, s := range d.servers {
		for addr, c := range s.Client.Nodes() {
			k := &keeper{addr: addr}
			all = append(all, k)
			asking.Go(func() { k.ask(ctx, c) })
		}
	}
	asking.Wait()
	slices.SortFunc(all, func(a, b *keeper) int { return strings.Compare(a.addr, b.addr) })
	return remarks(all, d.sentinel)
}

func (k *keeper) ask(ctx context.Context, c rueidis.Client) {
	cmds := []rueidis.Completed{c.B().Info().Build()}
	for _, name := range keeperSettings {
		cmds = append(cmds, c.B().ConfigGet().Parameter(name).Build())
	}
	replies, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		return c.DoMulti(ctx, cmds...), nil
	})
	if err == nil {
		var text string
		text, err = replies[0].ToString()
		k.info = info.Parse(text)
	}
	if k.err = own(ctx, err); k.err != nil {
		return
	}
	settings := map[string]string{}
	for i, name := range keeperSettings {
		values, err := replies[i+1].AsStrMap()
		if err != nil {
			return
		}
		settings[name] = values[name]
	}
	k.settings = settings
}

// remarks judges the servers of a directory.
func remarks(all []*keeper, sentinel bool) (found []Remark) {
	var masters []string
	denied := false
	for _, k := range all {
		switch {
		case retry.Denied(k.err):
			denied = true
			found = append(found, Remark{Unknown, "refused", k.addr, "does not let this user read INFO", "Run the check as the user of agents: docs/SECURITY.md."})
		case k.err != nil:
			found = append(found, Remark{Warn, "silent", k.addr, "does not answer: " + k.err.Error(), "Start it again, or take it out of the URL."})
		default:
			if k.info["role"] == "master" {
				masters = append(masters, k.addr)
			}
			found = append(found, k.remarks(sentinel)...)
		}
	}
	switch {
	case len(masters) > 1:
		found = append(found, Remark{Fail, "two_masters", "", strings.Join(masters, " and ") + " both take writes", "Make the one with the lower epoch (HGET mr:fleet:{directory} epoch) a replica of the other with REPLICAOF."})
	case len(masters) == 0 && !denied:
		found = append(found, Remark{Fail, "no_master", "", "no server that answers takes writes", "Promote the replica with the newest map with REPLICAOF NO ONE, and name it in the URL."})
	}
	return found
}

// remarks judges one server.
func (k *keeper) remarks(sentinel bool) (found []Remark) {
	add := func(level Level, code, what, hint string) {
		found = append(found, Remark{level, code, k.addr, what, hint})
	}
	master := k.info["role"] == "master"
	worse := Warn
	if master {
		worse = Fail
	}
	switch {
	case k.info["aof_enabled"] != "1":
		add(worse, "no_aof", "has no append-only file: a restart loses the map", "CONFIG SET appendonly yes, and in its file.")
	case k.info["aof_last_write_status"] == "err":
		add(worse, "aof_fails", "cannot write its append-only file", "Look at its log and its disk.")
	}
	if policy := k.info["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		add(worse, "evicts", "may evict the map: its maxmemory-policy is "+policy, "CONFIG SET maxmemory-policy noeviction, and in its file.")
	}
	if k.settings == nil {
		add(Unknown, "refused", "does not let this user read its settings", "Run the check as the user of agents: docs/SECURITY.md.")
		return found
	}
	if k.info["rdb_last_bgsave_status"] == "err" && k.settings["save"] != "" && k.settings["stop-writes-on-bgsave-error"] != "no" {
		add(worse, "save_fails", "refuses writes since a snapshot failed", `Look at its log and its disk; CONFIG SET save "" with an append-only file.`)
	}
	if k.settings["appendfsync"] == "no" {
		add(Warn, "no_fsync", "leaves it to the system when changes reach the disk", "CONFIG SET appendfsync everysec, and in its file.")
	}
	if master {
		found = append(found, k.replication(sentinel)...)
	}
	if len(found) == 0 && master {
		add(OK, "durable", fmt.Sprintf("has an append-only file and %s", readable.Count(k.inStep(), "replica")), "")
	}
	return found
}

// inStep returns how many replicas are online.
func (k *keeper) inStep() (n int) {
	for name, value := range k.info {
		if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online") {
			n++
		}
	}
	return n
}

// replication judges how a master is copied. That an old master stops confirming the map
// rests on these settings: agents wait for [SettleTime].
func (k *keeper) replication(sentinel bool) (found []Remark) {
	add := func(level Level, code, what, hint string) {
		found = append(found, Remark{level, code, k.addr, what, hint})
	}
	replicas := k.inStep()
	switch replicas {
	case 0:
		add(Warn, "no_replica", "has no replica in step: with its disk the map is lost", "Give it two replicas, and name them in the URL: fleet://HOST:PORT?addr=HOST2:PORT2&addr=HOST3:PORT3.")
		return found
	case 1:
		add(Warn, "one_replica", "has one replica in step: without that one the fleet is read-only, or loses its copy", "Give it a second replica, and name it in the URL.")
	}
	level := Warn
	if sentinel {
		level = Fail // nobody makes sure that the old master is down
	}
	need, _ := strconv.Atoi(k.settings["min-replicas-to-write"])
	lag, _ := strconv.Atoi(k.settings["min-replicas-max-lag"])
	switch {
	case need == 0:
		add(level, "lonely_writes", "goes on confirming the map when it is cut off from its replicas", "CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 2, and in its file.")
	case time.Duration(lag+2)*time.Second > SettleTime:
		add(level, "late_stop", fmt.Sprintf("goes on confirming the map for %d s when it is cut off from its replicas; agents wait for %v", lag+2, SettleTime),
			"CONFIG SET min-replicas-max-lag 2, and in its file.")
	case need > replicas:
		add(Fail, "too_few_replicas", fmt.Sprintf("refuses writes: %d of %s are in step", replicas, readable.Count(need, "replica")), "Start its replicas again.")
	}
	return found
}
