package doctor

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/script"
)

// maxAtStake is how many structures of a kind are counted.
const maxAtStake = 1000

// explainEviction adds to findings that a server evicts any key which structures are registered
// in the Redis, or in the fleet, and whether they use the server nevertheless.
func explainEviction(ctx context.Context, client rueidis.Client, servers []*server) {
	var evicting []*Finding
	for _, s := range servers {
		if i := slices.IndexFunc(s.findings, func(f Finding) bool { return f.Code == "evicts" }); i >= 0 {
			evicting = append(evicting, &s.findings[i])
		}
	}
	if len(evicting) == 0 {
		return
	}
	text := atStake(ctx, client)
	for _, f := range evicting {
		f.Text += text
	}
}

// atStake returns what an eviction of any key would cost: "; may lose work: 2 queues".
// Leases, hashes and values check the policy themselves (package policy).
func atStake(ctx context.Context, client rueidis.Client) (text string) {
	ctx, cancel := script.Within(ctx, timeout)
	defer cancel()
	valid := func(string) error { return nil }
	of := func(kind registry.Kind) iter.Seq2[string, error] { return registry.List(ctx, client, kind, valid) }
	counts := func(kinds ...counted) (all []string) {
		for _, kind := range kinds {
			n := 0
			for _, err := range kind.names {
				if err != nil || n == maxAtStake {
					break // count those that servers tell
				}
				n++
			}
			if n == maxAtStake {
				all = append(all, "at least "+readable.Count(n, kind.thing))
			} else if n > 0 {
				all = append(all, readable.Count(n, kind.thing))
			}
		}
		return all
	}
	if lose := counts(counted{"queue", of(registry.Queue)}, counted{"Ick", of(registry.Ick)}, counted{"channel", of(registry.Channel)}, counted{"tracker", of(registry.Tracker)}); len(lose) > 0 {
		text = "; may lose work: " + strings.Join(lose, ", ")
	}
	if refuse := counts(counted{"lease", registry.ListLeases(ctx, client, valid)}, counted{"hash namespace", of(registry.Hashes)}, counted{"value namespace", of(registry.Keys)}); len(refuse) > 0 {
		text += "; refuse calls unless told otherwise: " + strings.Join(refuse, ", ")
	}
	return text
}

// counted is the structures of a kind.
type counted struct {
	thing string
	names iter.Seq2[string, error]
}
