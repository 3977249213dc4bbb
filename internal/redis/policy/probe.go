package policy

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// state is the known state of a node, from good to bad.
type state int

const (
	unknown   state = iota // no answer yet
	safe                   // it evicts no key, or none that is at risk
	unsaid                 // its answer does not contain the policy
	evictable              // it may evict keys that are at risk
)

// answer is the result of a probe.
type answer struct {
	addr   string
	state  state  // unknown if there is no answer
	policy string // of a node that is evictable
	err    error  // why the state is unknown or unsaid
}

// probe asks a node, and returns when ctx ends. A node that is alone counts as a master.
func (c *Config) probe(ctx context.Context, addr string, client rueidis.Client, alone bool) answer {
	a, err := script.Prompt(ctx, func(ctx context.Context) (answer, error) {
		if !alone {
			role, err := client.Do(ctx, client.B().Role().Build()).ToArray()
			if silent(err) {
				return answer{}, err
			}
			if err == nil && len(role) > 0 { // else it does not know the command, or denies it
				if name, _ := role[0].ToString(); name == "slave" {
					return answer{state: safe}, nil // it evicts nothing by itself
				}
			}
		}
		text, err := client.Do(ctx, client.B().Info().Section("memory").Build()).ToString()
		if silent(err) {
			return answer{}, err
		}
		fields := info.Parse(text)
		switch policy := fields["maxmemory_policy"]; {
		case fields["maxmemory"] == "0":
			return answer{state: safe}, nil
		case policy == "":
			return answer{state: unsaid, err: err}, nil
		case strings.HasPrefix(policy, "allkeys-"), c.Volatile && strings.HasPrefix(policy, "volatile-"):
			return answer{state: evictable, policy: policy}, nil
		}
		return answer{state: safe}, nil
	})
	if err != nil {
		a.err = err
	}
	a.addr = addr
	return a
}

// silent reports whether a node does not answer, or not at the moment.
func silent(err error) bool {
	if err == nil {
		return false
	}
	_, answered := rueidis.IsRedisErr(err)
	return !answered || retry.Transient(err)
}
