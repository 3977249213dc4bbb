package retry_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// A recorded reply is an error as a server gave it: Redis 6.2.16, 7.0.15, 7.2.6, 7.4.1,
// 8.0.2, and Valkey 8.0.1, 8.1.1, 9.1.2.
type recorded struct {
	reply     string
	code      string // that it is taken for; empty for none
	transient bool
	denied    bool
}

// replies are by the servers that give them. Unless they are listed apart, a command alone and
// one in a script by redis.pcall get the same reply. By redis.call, servers since 7.0 add the
// script behind the reply, Valkey 9.1 the line, and 6.2 adds them in front.
var replies = map[string][]recorded{
	"all": {
		{reply: "OOM command not allowed when used memory > 'maxmemory'.", code: "OOM"},
		{reply: "WRONGTYPE Operation against a key holding the wrong kind of value", code: "WRONGTYPE"},
		{reply: "ICKVERSION it is 9", code: "ICKVERSION"}, // redis.error_reply
		{reply: "NOREPLICAS Not enough good replicas to write.", code: "NOREPLICAS", transient: true},
		{reply: "READONLY You can't write against a read only replica.", code: "READONLY", transient: true},
		{reply: "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", code: "MASTERDOWN", transient: true},
		{reply: "CLUSTERDOWN Hash slot not served", code: "CLUSTERDOWN", transient: true},
		{reply: "CLUSTERDOWN The cluster is down and only accepts read commands", code: "CLUSTERDOWN", transient: true},
		{reply: "MOVED 7629 127.0.0.1:17911", code: "MOVED", transient: true},
		{reply: "ASK 7629 127.0.0.1:17912", code: "ASK", transient: true},
		{reply: "TRYAGAIN Multiple keys request during rehashing of slot", code: "TRYAGAIN", transient: true},
		{reply: "CROSSSLOT Keys in request don't hash to the same slot", code: "CROSSSLOT"},
	},
	"6.2": {
		{reply: "NOPERM this user has no permissions to run the 'set' command or its subcommand", code: "NOPERM", denied: true},
		{reply: "ERR Error running script (call to f_3c44b7a40779a5c68a6e3920550ff76660a813aa): @user_script:1: @user_script: 1: The user executing the script can't run this command or subcommand", denied: true},
		{reply: "@user_script: 1: The user executing the script can't run this command or subcommand", denied: true},
		{reply: "ERR Error running script (call to f_3c44b7a40779a5c68a6e3920550ff76660a813aa): @user_script:1: @user_script: 1: The user executing the script can't access at least one of the keys mentioned in the command arguments", denied: true},
		{reply: "@user_script: 1: The user executing the script can't access at least one of the keys mentioned in the command arguments", denied: true},
		{reply: "ERR Error running script (call to f_3c44b7a40779a5c68a6e3920550ff76660a813aa): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.", code: "OOM"},
		{reply: "@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.", code: "OOM"},
		{reply: "@user_script: 284: -OOM command not allowed when used memory > 'maxmemory'.", code: "OOM"},
		{reply: "ERR Error running script (call to f_3c44b7a40779a5c68a6e3920550ff76660a813aa): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.", code: "READONLY", transient: true},
		{reply: "@user_script: 1: -READONLY You can't write against a read only replica.", code: "READONLY", transient: true},
		{reply: "@user_script: 1: -NOREPLICAS Not enough good replicas to write.", code: "NOREPLICAS", transient: true},
		{reply: "ERR Error running script (call to f_3c44b7a40779a5c68a6e3920550ff76660a813aa): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value", code: "WRONGTYPE"},
		{reply: "ERR Error running script (call to f_34606b6f7af06802699f49855d55ab2048d664ff): @user_script:1: ERR value is not an integer or out of range"},
		{reply: "ERR Error running script (call to f_2932c47b37b911cfbcb9bb1a43a41b6eb1aa9e58): @user_script:1: @user_script: 1: Lua script attempted to access a non local key in a cluster node", transient: true},
		{reply: "@user_script: 1: Lua script attempted to access a non local key in a cluster node", transient: true},
		{reply: "@user_script: 1: Lua script attempted to execute a write command while the cluster is down and readonly", transient: true},
		{reply: "@user_script: 1: This Redis command is not allowed from scripts"},
	},
	"7.0": {
		{reply: "NOPERM this user has no permissions to run the 'set' command", code: "NOPERM", denied: true},
		{reply: "ERR The user executing the script can't run this command or subcommand script: 3c44b7a40779a5c68a6e3920550ff76660a813aa, on @user_script:1.", denied: true},
		{reply: "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments", denied: true},
		{reply: "ERR The user executing the script can't publish to the channel mentioned in the command", denied: true},
	},
	"7.0 and later, Valkey": {
		{reply: "OOM command not allowed when used memory > 'maxmemory'. script: 3c44b7a40779a5c68a6e3920550ff76660a813aa, on @user_script:1.", code: "OOM"},
		{reply: "READONLY You can't write against a read only replica. script: 3c44b7a40779a5c68a6e3920550ff76660a813aa, on @user_script:1.", code: "READONLY", transient: true},
		{reply: "WRONGTYPE Operation against a key holding the wrong kind of value script: 3c44b7a40779a5c68a6e3920550ff76660a813aa, on @user_script:1.", code: "WRONGTYPE"},
		{reply: "ERR value is not an integer or out of range script: 34606b6f7af06802699f49855d55ab2048d664ff, on @user_script:1."},
		{reply: "ERR Script attempted to access a non local key in a cluster node script: 2932c47b37b911cfbcb9bb1a43a41b6eb1aa9e58, on @user_script:1.", transient: true},
		{reply: "ERR Script attempted to access a non local key in a cluster node", transient: true},
		{reply: "ERR Script attempted to execute a write command while the cluster is down and readonly script: 1f8f4cfba6f3375f8c4ec02b9de4361a5dea5c64, on @user_script:1.", transient: true},
		{reply: "ERR This Redis command is not allowed from script script: 3c44b7a40779a5c68a6e3920550ff76660a813aa, on @user_script:1."},
	},
	"7.2 and later, Valkey": {
		{reply: "NOPERM User u has no permissions to run the 'set' command", code: "NOPERM", denied: true},
		{reply: "ERR ACL failure in script: User u has no permissions to run the 'set' command script: 3c44b7a40779a5c68a6e3920550ff76660a813aa, on @user_script:1.", denied: true},
		{reply: "ERR ACL failure in script: User u has no permissions to run the 'set' command", denied: true},
		{reply: "ERR ACL failure in script: No permissions to access a key", denied: true},
		{reply: "ERR ACL failure in script: No permissions to access a channel", denied: true},
	},
	"7.4 and later, Valkey": {
		{reply: "ERR Unable to execute command 'mget' in script because undeclared keys were accessed during rehashing of the slot script: 0db2107fac72fdbbcf998fd508fb6cffa93c0924, on @user_script:1.", transient: true},
		{reply: "ERR Command 'mget' in script attempted to access keys that don't hash to the same slot"},
	},
	"Valkey 9.1": {
		{reply: "OOM command not allowed when used memory > 'maxmemory'. script: on @user_script:1.", code: "OOM"},
		{reply: "NOREPLICAS Not enough good replicas to write. script: on @user_script:1.", code: "NOREPLICAS", transient: true},
		{reply: "READONLY You can't write against a read only replica. script: on @user_script:1.", code: "READONLY", transient: true},
		{reply: "WRONGTYPE Operation against a key holding the wrong kind of value script: on @user_script:1.", code: "WRONGTYPE"},
		{reply: "ERR value is not an integer or out of range script: on @user_script:1."},
		{reply: "ERR Unknown command called from script script: on @user_script:1."},
		{reply: "ERR This Valkey command is not allowed from script script: on @user_script:1."},
		{reply: "ERR ACL failure in script: User u has no permissions to run the 'set' command script: on @user_script:1.", denied: true},
		{reply: "ERR ACL failure in script: No permissions to access a key script: on @user_script:1.", denied: true},
		{reply: "ERR Write commands are not allowed from read-only scripts. script: on @user_script:1."},
		{reply: "ERR Could not find scripting engine 'lua'"}, // its module is unloaded
	},
	"Redis": {
		{reply: "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", code: "BUSY", transient: true},
		{reply: "NOSCRIPT No matching script. Please use EVAL.", code: "NOSCRIPT", transient: true},
	},
	"Valkey": {
		{reply: "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", code: "BUSY", transient: true},
		{reply: "NOSCRIPT No matching script.", code: "NOSCRIPT", transient: true},
	},
}

// TestRecordedReplies: an error is classified alike from any server, and from any place in a
// script.
func TestRecordedReplies(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	codes := map[string]bool{}
	for _, list := range replies {
		for _, r := range list {
			codes[r.code] = r.code != ""
		}
	}
	for server, list := range replies {
		for _, r := range list {
			err := client.Do(t.Context(), client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(r.reply).Build()).Error()
			if err == nil || err.Error() != strings.TrimPrefix(r.reply, "ERR ") {
				t.Fatalf("the server made %v of %q", err, r.reply)
			}
			for code, ok := range codes {
				if got, want := retry.Code(err, code), ok && code == r.code; got != want {
					t.Errorf("%s: Code(%q, %q) = %v, want %v", server, r.reply, code, got, want)
				}
			}
			if got := retry.Transient(err); got != r.transient {
				t.Errorf("%s: Transient(%q) = %v, want %v", server, r.reply, got, r.transient)
			}
			if got := retry.Denied(err); got != r.denied {
				t.Errorf("%s: Denied(%q) = %v, want %v", server, r.reply, got, r.denied)
			}
			want := cmp.Or(r.code, "ERR")
			if r.denied {
				want = "NOPERM"
			}
			if got := retry.Word(err); got != want {
				t.Errorf("%s: Word(%q) = %q, want %q", server, r.reply, got, want)
			}
		}
	}
}

// TestThisServersReplies has the server under test give errors of each kind itself.
func TestThisServersReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	admin := server.Client(t)
	do := func(words ...string) {
		t.Helper()
		if err := admin.Do(t.Context(), admin.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	// incr has a script add to a counter, in both ways in which it may call a command.
	incr := func(client rueidis.Client, key string, judge func(error) bool, want string) {
		t.Helper()
		for _, by := range []string{"call", "pcall"} {
			err := client.Do(t.Context(), client.B().Eval().Script("return redis."+by+"('INCR', '"+key+"')").Numkeys(0).Build()).Error()
			if !judge(err) {
				t.Errorf("redis.%s ends with %v, which is not taken for %s", by, err, want)
			}
		}
	}
	do("SET", "k", strings.Repeat("v", 1<<20))
	for _, state := range []struct {
		code      string
		transient bool
		set       [2][]string // into it, and out of it
	}{
		{"OOM", false, [2][]string{{"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}}},
		{"WRONGTYPE", false, [2][]string{{"RPUSH", "n", "v"}, {"DEL", "n"}}},
		{"NOREPLICAS", true, [2][]string{{"CONFIG", "SET", "min-replicas-to-write", "1"}, {"CONFIG", "SET", "min-replicas-to-write", "0"}}},
		{"READONLY", true, [2][]string{{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}}},
	} {
		do(state.set[0]...)
		incr(admin, "n", func(err error) bool {
			return retry.Code(err, state.code) && retry.Transient(err) == state.transient
		}, state.code)
		do(state.set[1]...)
	}
	do("ACL", "SETUSER", "keyless", "on", ">secret", "~a*", "+@all")
	do("ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "-incr")
	for _, user := range []string{"keyless", "mute"} {
		client := server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = user, "secret" })
		incr(client, "n", retry.Denied, "a missing permission of the user "+user)
	}
}
