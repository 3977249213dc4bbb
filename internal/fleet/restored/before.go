package restored

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/rebalance"
)

// BeforeUse returns what failover.Config.Restored is to do before clients use a restored
// partition: it gives tags that were moved away back to the partitions that answer. The
// others are in the error; a [Job] asks them when they answer. Option has the user, the
// password and the TLS settings for members.
func BeforeUse(option rueidis.ClientOption, dir *directory.Directory, log *slog.Logger) func(ctx context.Context, m *directory.Map, partition int, addr string) error {
	return func(ctx context.Context, m *directory.Map, partition int, addr string) error {
		tags, silent, err := rebalance.Restored(ctx, option, dir, m, partition, addr)
		if tags > 0 {
			log.InfoContext(ctx, "tags that a restored partition had were moved away since, and stay where they are", "partition", partition, "tags", tags)
		}
		if err != nil {
			return err
		}
		var asked []string
		for _, p := range m.Partitions {
			if why := silent[p.ID]; why != nil {
				err = errors.Join(err, fmt.Errorf("partition %d does not answer, and tags that were moved there since are used here until it does: %w", p.ID, why))
			} else if p.ID != partition {
				asked = append(asked, moved(p.ID))
			}
		}
		pool := members.New(option, time.Second)
		defer pool.Close()
		_, failed := members.Ask(ctx, pool, addr, func(ctx context.Context, c rueidis.Client) (bool, error) {
			t, err := read(ctx, c)
			if err != nil {
				return false, err
			}
			return t.store(ctx, c, found{}, asked...)
		})
		return errors.Join(err, failed) // steps that were not stored are done again
	}
}
