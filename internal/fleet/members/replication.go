package members

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/redis/rueidis"
)

// replicaUser is the prefix of the user as which a replica logs in to its master. The
// master's run id follows.
const replicaUser = "mr-replica-"

// Login returns the user and the password with which a replica follows a master in one
// run. The next run does not know the user: no replica copies a restarted master, which
// may have old data or none, until an agent has examined it. The same secret gives the
// same password.
func Login(run, secret string) (user, password string) {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(run))
	return replicaUser + run, hex.EncodeToString(mac.Sum(nil))
}

// FollowedRun returns the run that a replica with that masteruser follows, empty if there
// is none.
func FollowedRun(masteruser string) string {
	run, ok := strings.CutPrefix(masteruser, replicaUser)
	if !ok {
		return ""
	}
	return run
}

// Admit lets replicas follow a master if it is still in that run.
func Admit(ctx context.Context, c rueidis.Client, run, secret string) error {
	return InRun(ctx, c, run, func(c rueidis.DedicatedClient) error {
		user, password := Login(run, secret)
		return c.Do(ctx, c.B().AclSetuser().Username(user).Rule("on", ">"+password, "+ping", "+psync", "+replconf").Build()).Error()
	})
}

// errRestarted means that a server is not in the run that a call is for.
var errRestarted = errors.New("the server was restarted meanwhile")

// InRun calls a function with a connection to a server if that is in the given run. The
// connection ends with the process, so that all commands reach the same run.
//
// It is closed afterwards. To give it back, rueidis would end subscriptions, and send a PING
// for each. A fenced server refuses that, and rueidis takes it for a bug and panics.
func InRun(ctx context.Context, client rueidis.Client, run string, do func(c rueidis.DedicatedClient) error) error {
	c, giveBack := client.Dedicate()
	defer giveBack() // nothing is left to give back
	defer c.Close()
	text, err := c.Do(ctx, c.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return err
	}
	if now := ParseInfo(text).Run; now != run {
		return errRestarted
	}
	return do(c)
}

// Follow makes a server a replica of the one at host and port in that run, and ends its
// clients' connections, in one step: no write comes in between.
func Follow(ctx context.Context, c rueidis.Client, host, port, run, secret string) error {
	user, password := Login(run, secret)
	return exec(ctx, c, set(c.B(), "masteruser", user), set(c.B(), "masterauth", password), follow(c.B(), host, port), killClients(c.B()))
}

// Fence makes a server a replica of an address where no server listens, and ends its
// clients' connections, in one step.
func Fence(ctx context.Context, c rueidis.Client) error {
	return exec(ctx, c, follow(c.B(), FenceHost, FencePort), killClients(c.B()))
}

// Retire takes the identity of a fenced server away, and leaves it fenced: no agent takes it
// for a member any more, by whatever map. The commands arrive together, so no client writes
// while it is a master.
func Retire(ctx context.Context, c rueidis.CoreClient, identity string) error {
	retire := c.B().Eval().Script(Scripts.Script("retire").Source()).Numkeys(1).Key(Base).Arg(identity).Build()
	alone := set(c.B(), "min-replicas-to-write", "0") // it may have been a master
	for _, result := range c.DoMulti(ctx, alone, c.B().Replicaof().No().One().Build(), retire, follow(c.B(), FenceHost, FencePort)) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return nil
}

// The address where no server listens.
const (
	FenceHost = "127.0.0.1"
	FencePort = "1"
)

// Serve sets whether a server can be read while it has no link to a master.
func Serve(b rueidis.Builder, unlinked bool) rueidis.Completed {
	return set(b, "replica-serve-stale-data", map[bool]string{true: "yes", false: "no"}[unlinked])
}

func set(b rueidis.Builder, name, value string) rueidis.Completed {
	return b.ConfigSet().ParameterValue().ParameterValue(name, value).Build()
}

func follow(b rueidis.Builder, host, port string) rueidis.Completed {
	return b.Arbitrary("REPLICAOF", host, port).Build()
}

func killClients(b rueidis.Builder) rueidis.Completed {
	return b.Arbitrary("CLIENT", "KILL", "TYPE", "normal").Build()
}

// exec executes commands in a transaction, and returns the first error of them.
func exec(ctx context.Context, c rueidis.Client, cmds ...rueidis.Completed) error {
	all := append([]rueidis.Completed{c.B().Multi().Build()}, cmds...)
	results := c.DoMulti(ctx, append(all, c.B().Exec().Build())...)
	for _, result := range results {
		if err := result.Error(); err != nil {
			return err
		}
	}
	replies, err := results[len(results)-1].ToArray()
	if err != nil {
		return err
	}
	for _, reply := range replies {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}
