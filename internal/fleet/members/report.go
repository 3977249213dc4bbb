package members

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/retry"
)

// Report is a server's report about itself. Fields that were not asked for are zero.
type Report struct {
	Identity string // which partition of which fleet it belongs to
	Floor    int64  // the epoch below which a map is too old to place a tag
	Tags     int64  // the tags whose data is here
	Beat     Beat   // how new its data is; zero if it has none
	Copy     int64  // the epoch of its copy of the map, 0 for none
	Unread   bool   // whether it refuses reads: it loads its data, or was restarted and not examined

	// Fields of INFO.
	Run     string    // the run id: each start has a new one
	Version string    // of the program, such as "7.0.15", or "valkey 8.1.0"
	PID     int       // the process
	Clock   time.Time // the server's time
	Cluster bool      // whether it is a node of a Redis Cluster

	Master  bool   // whether it takes writes
	Follows string // the address of its master, if it is a replica

	// FollowsRun is the run of its master that a replica may follow.
	FollowsRun string

	Linked  bool // whether its master streams writes to it
	Copying bool // whether a full copy from its master is in progress
	Loading bool // whether it reads its data from disk
	InStep  int  // replicas that are online and have acknowledged, if it is a master

	History string // the id of its replication history
	Before  string // the history that it had before it was promoted
	Turned  int64  // its offset in Before when it was promoted
	Offset  int64  // how far it is in History, in bytes
	End     int64  // how far it passes History on

	Saving   bool  // whether a child writes a snapshot, to disk or for a replica
	Forked   bool  // whether a child does something else
	LastSave int64 // when it last completed a snapshot, or else started, in seconds
	SaveOK   bool  // whether the last snapshot that was not aborted succeeded
	Copied   int64 // memory that the last snapshot used in addition, in bytes

	Memory    int64   // used_memory, in bytes
	MaxMemory int64   // maxmemory, in bytes; 0 for no limit
	Policy    string  // maxmemory_policy
	Busy      float64 // the share of one CPU that it has used since it started
}

// Examine asks a server for a report.
func Examine(ctx context.Context, c rueidis.Client) (Report, error) {
	r, _, err := ExamineAll(ctx, c)
	return r, err
}

// ExamineAll is Examine, and returns all that INFO says.
func ExamineAll(ctx context.Context, c rueidis.Client) (Report, info.Fields, error) {
	replies := c.DoMulti(ctx, c.B().Info().Build(), keys(c.B()), c.B().Getrange().Key(MapKey).Start(0).End(epochDigits).Build())
	text, err := replies[0].ToString()
	if err != nil {
		return Report{}, nil, err
	}
	fields := info.Parse(text)
	r := reportOf(fields)
	err = r.readKeys(replies[1])
	if r.Unread = retry.Code(err, "LOADING") || retry.Code(err, "MASTERDOWN"); r.Unread {
		err = nil // it answers INFO, and no reads
	}
	held, _ := replies[2].ToString() // clients may lack the permission, and need it not
	r.Copy = ParseCopy(held).Epoch
	return r, fields, err
}

// epochDigits is more digits than an epoch has. A report needs no more of a copy.
const epochDigits = 24

func keys(b rueidis.Builder) rueidis.Completed {
	return b.Mget().Key(IdentityKey, FloorKey, TagsKey, BeatKey).Build()
}

func (r *Report) readKeys(result rueidis.RedisResult) error {
	values, err := result.ToArray()
	if err != nil {
		return err
	}
	r.Identity, _ = values[0].ToString()
	for i, n := range []*int64{&r.Floor, &r.Tags} {
		text, _ := values[1+i].ToString()
		*n, _ = strconv.ParseInt(text, 10, 64)
	}
	beat, _ := values[3].ToString()
	r.Beat = ParseBeat(beat)
	return nil
}

// FenceAndExamine fences a server, and returns its report. If it refuses reads, it is opened
// for the moment that it takes to read the report.
func FenceAndExamine(ctx context.Context, c rueidis.Client) (Report, error) {
	if err := Fence(ctx, c); err != nil {
		return Report{}, err
	}
	r, err := Examine(ctx, c)
	if err != nil || r.Identity != "" {
		return r, err
	}
	reply, err := ReadFenced(ctx, c, keys(c.B()))
	if err == nil {
		err = r.readKeys(reply)
	}
	return r, err
}

// ExamineFenced asks a server for a report. If it refuses reads, it is opened for the moment
// that it takes to read the report.
func ExamineFenced(ctx context.Context, c rueidis.Client) (Report, error) {
	r, err := Examine(ctx, c)
	if err != nil || !r.Unread || r.Loading {
		return r, err
	}
	reply, err := ReadFenced(ctx, c, keys(c.B()))
	if err == nil {
		err = r.readKeys(reply)
	}
	return r, err
}

// ReadFenced sends a read to a server that refuses reads while it is fenced.
func ReadFenced(ctx context.Context, c rueidis.Client, read rueidis.Completed) (rueidis.RedisResult, error) {
	replies := c.DoMulti(ctx, Serve(c.B(), true), read, Serve(c.B(), false))
	return replies[1], errors.Join(replies[0].Error(), replies[2].Error())
}

// Clock returns the time by most of the clocks that are so far ahead of this process's, or
// by this process's if there are none.
func Clock(ahead []time.Duration) time.Time {
	if len(ahead) == 0 {
		return time.Now()
	}
	return time.Now().Add(slices.Sorted(slices.Values(ahead))[len(ahead)/2])
}

// ParseInfo reads the reply of INFO.
func ParseInfo(text string) Report { return reportOf(info.Parse(text)) }

func reportOf(fields info.Fields) Report {
	inStep := 0
	for name, value := range fields {
		// A replica that has its copy counts from its first acknowledgement on.
		if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online") && !strings.Contains(value, "offset=0,") {
			inStep++
		}
	}
	r := Report{
		Run: fields["run_id"], Version: fields["redis_version"], PID: int(fields.Int("process_id")), Cluster: fields["cluster_enabled"] == "1",
		Master: fields["role"] == "master", Linked: fields["master_link_status"] == "up",
		Copying: fields["master_sync_in_progress"] == "1", Loading: fields["loading"] == "1", InStep: inStep,
		History: fields["master_replid"], Before: fields["master_replid2"], Offset: fields.Int("slave_repl_offset"), End: fields.Int("master_repl_offset"),
		Saving: fields.Int("rdb_bgsave_in_progress") != 0, Forked: fields.Int("aof_rewrite_in_progress") != 0,
		LastSave: fields.Int("rdb_last_save_time"), SaveOK: fields["rdb_last_bgsave_status"] == "ok", Copied: fields.Int("rdb_last_cow_size"),
		Memory: fields.Int("used_memory"), MaxMemory: fields.Int("maxmemory"), Policy: fields["maxmemory_policy"],
	}
	if valkey := fields["valkey_version"]; valkey != "" {
		r.Version = "valkey " + valkey
	}
	if r.Master || !r.Linked {
		r.Offset = r.End // a replica that has met no master since its start reports slave_repl_offset:1, whatever it has
	}
	if host := fields["master_host"]; !r.Master && host != "" {
		r.Follows = net.JoinHostPort(host, fields["master_port"])
	}
	// The server reports the first offset that is not part of the earlier history.
	r.Turned = max(0, fields.Int("second_repl_offset")-1)
	if us := fields.Int("server_time_usec"); us != 0 {
		r.Clock = time.UnixMicro(us)
	}
	if uptime := fields.Int("uptime_in_seconds"); uptime > 0 {
		r.Busy = (fields.Float("used_cpu_user") + fields.Float("used_cpu_sys")) / float64(uptime)
	}
	return r
}
