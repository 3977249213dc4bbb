package members

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// replicaUser begins the name of the user as whom a replica logs in to its master.
// Behind it comes the master's run id.
const replicaUser = "mr-replica-"

// Login returns the user and the password by which a replica follows a master in one
// of its runs. The next run does not know the user: a master that was started again,
// perhaps with old data or none, is not copied until somebody who has looked at it
// says so. Whoever has the same secret gets the same password.
func Login(run, secret string) (user, password string) {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(run))
	return replicaUser + run, hex.EncodeToString(mac.Sum(nil))
}

// FollowedRun returns the run that a replica with that masteruser follows, and an
// empty text if nobody has said so.
func FollowedRun(masteruser string) string {
	run, ok := strings.CutPrefix(masteruser, replicaUser)
	if !ok {
		return ""
	}
	return run
}

// Admit lets replicas follow a master if it is still in that run. All goes by one
// connection, which ends with the process.
func Admit(ctx context.Context, c rueidis.Client, run, secret string) error {
	return InRun(ctx, c, run, func(c rueidis.DedicatedClient) error {
		user, password := Login(run, secret)
		return c.Do(ctx, c.B().AclSetuser().Username(user).Rule("on", ">"+password, "+ping", "+psync", "+replconf").Build()).Error()
	})
}

// InRun does something by one connection to a server, if that is in a run of that id.
func InRun(ctx context.Context, c rueidis.Client, run string, do func(c rueidis.DedicatedClient) error) error {
	return c.Dedicated(func(c rueidis.DedicatedClient) error {
		text, err := c.Do(ctx, c.B().Info().Section("server").Build()).ToString()
		if err != nil {
			return err
		}
		if now := ParseInfo(text).Run; now != run {
			return fmt.Errorf("the server was started again: it is in run %s, not %s", now, run)
		}
		return do(c)
	})
}

// Follow makes a server a replica of the one at host and port in that run, and ends
// its clients' connections, in one step: no client's write comes in between.
func Follow(ctx context.Context, c rueidis.Client, host, port, run, secret string) error {
	user, password := Login(run, secret)
	b := c.B()
	return exec(ctx, c,
		b.ConfigSet().ParameterValue().ParameterValue("masteruser", user).Build(),
		b.ConfigSet().ParameterValue().ParameterValue("masterauth", password).Build(),
		b.Arbitrary("REPLICAOF", host, port).Build(),
		b.Arbitrary("CLIENT", "KILL", "TYPE", "normal").Build(),
	)
}

// Fence makes a server a replica of nobody, and ends its clients' connections, in one
// step.
func Fence(ctx context.Context, c rueidis.Client) error {
	return exec(ctx, c,
		c.B().Arbitrary("REPLICAOF", FenceHost, FencePort).Build(),
		c.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal").Build(),
	)
}

// FenceHost is the host of the address at which nobody listens.
const FenceHost = "127.0.0.1"

// FencePort is the port of that address.
const FencePort = "1"

// exec does commands in a transaction and returns the first error among theirs.
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

// Serve says whether a server may be read while it is not linked to a master.
func Serve(b rueidis.Builder, unlinked bool) rueidis.Completed {
	value := map[bool]string{true: "yes", false: "no"}[unlinked]
	return b.ConfigSet().ParameterValue().ParameterValue("replica-serve-stale-data", value).Build()
}
