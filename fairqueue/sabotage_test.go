package fairqueue

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/script/scripttest"
)

// protections are what keeps the histories as they should be, and how to take
// each out. Those named must notice.
var protections = []struct {
	name, old, replacement string
	histories              []string
}{
	{
		"a repeated call is answered from memory", "answered = string.sub(last, 28)", "answered = false",
		[]string{
			"a write is repeated", "a read is repeated", "a read that settles is repeated", "an ack is repeated", "a nack is repeated",
			"a cancel is repeated", "a redrive and a purge are repeated",
		},
	},
	{
		"an acknowledgement is for a delivery in flight", "if visible and not settled[receipt] then", "if not settled[receipt] then",
		[]string{"a stale receipt"},
	},
	{
		"giving back is for a delivery in flight", "if redis.call('ZREM', flight, receipt) == 1 then", "if redis.call('ZREM', flight, receipt) >= 0 then",
		[]string{"a stale receipt"},
	},
	{
		"extending is for a delivery in flight", "redis.call('ZSCORE', flight, ARGV[i]) and ", "",
		[]string{"a stale receipt"},
	},
	{
		"receipts have random letters", "visible, stamp = whole(now + ARGV[3]), instant .. ARGV[6]", "visible, stamp = whole(now + ARGV[3]), '1234567890123' .. '12345678'",
		[]string{"the same delivery is made twice"},
	},
	{
		"a delivery moves its flow's head by a turn", "waiting[#waiting + 1] = whole(tag)", "waiting[#waiting + 1] = '1'",
		[]string{"flows take turns"},
	},
	{
		"a deadline is looked at", "if deadline and deadline <= now then", "if false then",
		[]string{"a deadline comes"},
	},
	{
		"attempts are bounded", "elseif made >= limit then", "elseif limit == 0 then",
		[]string{"a message always fails", "a message kills its readers"},
	},
	{
		"handing back is no attempt", "+ (failed and 1 or 0)", "+ 1",
		[]string{"nobody is there for a message"},
	},
	{
		"the emptiest stream is taken", "if not fewest or n < fewest then", "if not fewest then",
		[]string{"a tenant's messages spread"},
	},
	{
		"a writer with the old number is told", "elseif exists and (streams or '') ~= ARGV[4] then", "elseif false then",
		[]string{"a writer knows the old number of streams"},
	},
	{
		"pausing stops readers", "paused and 0 or tonumber(ARGV[2])", "tonumber(ARGV[2])",
		[]string{"the queue is paused"},
	},
	{
		"a dedupe id is remembered", "names[name] or tonumber(redis.call('ZSCORE', dedupes, name) or 0) > now and redis.call('HGET', dedupe, name)", "false",
		[]string{"the same is written twice"},
	},
	{
		"a position is written once", "if position <= at then", "if false then",
		[]string{"a position is written again, by another process"},
	},
	{
		"a position is stored with its message", "positions[source] = position", "",
		[]string{"a position is written again, by another process"},
	},
	{
		"no position is left out", "elseif position > at + 1 then", "elseif false then",
		[]string{"a position is left out"},
	},
	{
		"hashes have a placeholder", "({'messages', 'work',", "({'work',",
		[]string{"all keys stay for as long as the queue is there"},
	},
	{
		"sorted sets have a placeholder", "({'active', 'blocked', 'flight',", "({'active', 'blocked',",
		[]string{"all keys stay for as long as the queue is there"},
	},
	{
		"a token wakes a reader", "redis.pcall('LPUSH', prefix .. 'wake', unpack(list))", "",
		[]string{"a sleeping reader", "a sleeping reader and a message that is given back"},
	},
	{
		"a reader that sleeps is counted", "n.sleepers = n.sleepers + 1", "",
		[]string{"a sleeping reader", "a sleeping reader and a message that is given back"},
	},
	{
		"a reader knows when something is due", "reply[4] = soon < math.huge and math.max(0, soon - now) or -1", "",
		[]string{"a sleeping reader and a delayed message"},
	},
}

// TestEveryProtectionIsNeeded takes each protection out and expects the histories
// to notice.
func TestEveryProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range protections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				i := slices.IndexFunc(histories, func(h history) bool { return h.name == name })
				if err := play(t, histories[i], scripttest.Without(t, library, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
