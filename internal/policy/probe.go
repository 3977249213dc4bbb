package policy

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/info"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// state is what is known of a node, from good to bad.
type state int

const (
	unknown   state = iota // it has not answered yet
	safe                   // it evicts nothing, or nothing that is at stake
	unsaid                 // it does not say
	evictable              // it may evict what is at stake
)

// answer is what a node says.
type answer struct {
	addr   string
	state  state  // unknown if there is no answer
	policy string // of a node that is evictable
	err    error  // why there is no answer, or it does not say
}

// probe asks a node. A node that is alone is taken for a master.
func (c *Config) probe(ctx context.Context, addr string, client rueidis.Client, alone bool) answer {
	a := answer{addr: addr}
	if !alone {
		switch replica, err := isReplica(ctx, client); {
		case err != nil:
			a.err = err
			return a
		case replica: // it evicts nothing by itself
			a.state = safe
			return a
		}
	}
	text, err := ask(ctx, client, client.B().Info().Section("memory").Build()).ToString()
	a.err = err
	policy := policyIn(text)
	switch {
	case silent(err):
	case policy == "":
		a.state = unsaid
	case strings.HasPrefix(policy, "allkeys-"), c.Volatile && strings.HasPrefix(policy, "volatile-"):
		a.state, a.policy = evictable, policy
	default:
		a.state = safe
	}
	return a
}

// isReplica reports whether a node says that it is one.
func isReplica(ctx context.Context, client rueidis.Client) (bool, error) {
	role, err := ask(ctx, client, client.B().Role().Build()).ToArray()
	if silent(err) {
		return false, err
	}
	if err != nil || len(role) == 0 { // it does not know the command, or may not tell
		return false, nil //nolint:nilerr // it counts as a master
	}
	name, _ := role[0].ToString()
	return name == "slave", nil
}

// silent reports whether an error says that a node does not answer, or not for now.
func silent(err error) bool {
	if err == nil {
		return false
	}
	_, answered := rueidis.IsRedisErr(err)
	return !answered || retry.Transient(err)
}

// ask puts one question, and returns when ctx ends.
func ask(ctx context.Context, client rueidis.Client, question rueidis.Completed) rueidis.RedisResult {
	result, err := script.Prompt(ctx, func(ctx context.Context) (rueidis.RedisResult, error) {
		return client.Do(ctx, question), nil
	})
	if err != nil {
		return rueidis.NewResult(rueidis.RedisMessage{}, err)
	}
	return result
}

// policyIn returns the maxmemory-policy that INFO memory tells, noeviction if the
// server has no limit, and nothing if it does not say.
func policyIn(text string) string {
	fields := info.Parse(text)
	if fields["maxmemory"] == "0" {
		return "noeviction"
	}
	return fields["maxmemory_policy"]
}
