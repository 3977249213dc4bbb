package rebalance

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// restoredRun is the run of trips in records of tags that a restored partition gives back.
const restoredRun = "restored"

// Restored gives tags that were moved away back before clients use a server that is about to be
// the master of a partition with old data: their records name the partitions where they are, and
// agents delete the old data. It returns how many there were. It asks the elected masters
// that did not go back themselves; [Mover.Compare] does the rest when the partition is in use.
func Restored(ctx context.Context, option rueidis.ClientOption, m *directory.Map, partition int, addr string) (tags int, err error) {
	pool := members.New(option, 2*time.Second)
	defer pool.Close()
	skip := map[int]bool{}
	_, err = members.Ask(ctx, pool, addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
		return struct{}{}, eachPage(ctx, c, func(page []string) error {
			here, _, err := readRecords(ctx, c, m, partition, "", page)
			if err != nil {
				return err
			}
			records := map[string]string{}
			for _, r := range here {
				records[r.tag] = r.text
			}
			mine := tagsIn(here, partition)
			for _, p := range m.Partitions {
				if p.ID == partition || p.ReadOnly || skip[p.ID] {
					continue
				}
				there, err := members.Ask(ctx, pool, p.Master.Addr, func(ctx context.Context, c rueidis.Client) ([]tagRecord, error) {
					there, back, err := readRecords(ctx, c, m, p.ID, p.Master.Run, mine)
					if back {
						err = wentBack(p.ID)
					}
					return there, err
				})
				if skip[p.ID] = err != nil; skip[p.ID] {
					continue
				}
				for _, tag := range tagsIn(there, p.ID) {
					after := trip{from: partition, to: p.ID, run: restoredRun}.gone()
					reply, err := c.Do(ctx, c.B().Eval().Script(members.Scripts.Script("exchange").Source()).Numkeys(1).Key(members.Base).
						Arg(m.Fleet, strconv.Itoa(partition), tag, records[tag], after).Build()).AsStrSlice()
					if err != nil {
						return err
					}
					if reply[0] == "exchanged" {
						tags++
					}
				}
			}
			return nil
		})
	})
	return tags, err
}
