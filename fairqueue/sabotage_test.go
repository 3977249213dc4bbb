package fairqueue

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/test/scripttest"
)

// protections are the safeguards that the histories test, and how to take
// each out. The histories named must fail then.
var protections = []struct {
	name, old, replacement string
	histories              []string
	also                   []string // pairs of another text and its replacement: short scripts have it, too
}{
	{
		"a repeated call is answered from memory", "return string.sub(stored, 38)", "return nil",
		[]string{
			"a write is repeated", "a read is repeated", "a read that settles is repeated", "an ack is repeated", "a nack is repeated",
			"a cancel is repeated", "a redrive and a purge are repeated", "a retry is repeated",
		},
		nil,
	},
	{
		"an acknowledgement is for a delivery in flight", "if value and not gone[receipt] then", "value = value or string.rep('0', 29) .. 'c.=a' if not gone[receipt] then",
		[]string{"a stale receipt"},
		[]string{
			"if not held or settled and settled[receipt] then", "held = held or string.rep('0', 29) .. 'r.=a' if settled and settled[receipt] then",
		},
	},
	{
		"giving back is for a delivery in flight", "local value = not gone[receipt] and redis.call('HGET', hot, receipt)\n  if value then",
		"local value = redis.call('HGET', hot, receipt) or string.rep('0', 29) .. 'c.=a'\n  if value then",
		[]string{"a stale receipt"}, nil,
	},
	{
		"extending is for a delivery in flight", "local good = value and ", "value = value or string.rep('0', 29) .. 'c.=a' local good = ",
		[]string{"a stale receipt"}, nil,
	},
	{
		"receipts have random letters", "id .. random", "id .. '12345678'",
		[]string{"the same delivery is made twice"},
		[]string{"sub(ticket, -8)", "'12345678'"},
	},
	{
		"a delivery moves its flow's head by a turn", "tag, extra = tag_of(tag + turn(flow))", "tag, extra = '1'",
		[]string{"flows take turns"},
		[]string{
			"string.format('%d', tag + 1000)", "'1'",
		},
	},
	{
		"a deadline is looked at", "deadline and deadline <= now and 'expired' or", "",
		[]string{"a deadline comes"}, nil,
	},
	{
		"attempts are bounded", "if made >= limit then", "if limit == 0 then",
		[]string{"a message always fails", "a message kills its readers"}, nil,
	},
	{
		"handing back is no attempt", "+ (failed and 1 or 0)", "+ 1",
		[]string{"nobody is there for a message"}, nil,
	},
	{
		"the emptiest stream is taken", "if not fewest or size < fewest then", "if not fewest then",
		[]string{"a tenant's messages spread"}, nil,
	},
	{
		"a writer with the old number is told", "elseif exists and (streams or '') ~= ARGV[4] then", "elseif false then",
		[]string{"a writer knows the old number of streams"}, nil,
	},
	{
		"pausing stops readers", "paused and 0 or tonumber(ARGV[2])", "tonumber(ARGV[2])",
		[]string{"the queue is paused"}, nil,
	},
	{
		"a dedupe id is remembered", "names[name] or tonumber(redis.call('ZSCORE', dedupes, name) or 0) > now and redis.call('HGET', dedupe, name)", "false",
		[]string{"the same is written twice"}, nil,
	},
	{
		"a position is written once", "if position <= at then", "if false then",
		[]string{"a position is written again, by another process"}, nil,
	},
	{
		"a position is stored with its message", "positions[source] = position", "",
		[]string{"a position is written again, by another process"}, nil,
	},
	{
		"no position is left out", "elseif position > at + 1 then", "elseif false then",
		[]string{"a position is left out"}, nil,
	},
	{
		"the end of a message is counted in its batch", "batch[how], batch.changed = batch[how] + 1, true", "",
		[]string{"a batch ends"}, nil,
	},
	{
		"a dead message counts no more", "sets[id] = string.gsub(body, '@%d+', '%0,', 1)", "",
		[]string{"a message of a batch is redriven"}, nil,
	},
	{
		"a batch that is done ends no more", "if batch and batch.state ~= 'd' then", "if batch then",
		[]string{"a batch is late"}, nil,
	},
	{
		"a batch takes no more than its total", "(of.total == '-' or of.written < of.total + 0)", "true",
		[]string{"a batch ends"}, nil,
	},
	{
		"a message of a cancelled batch is not delivered", "or is_withdrawn(batch) and 'cancelled'", "or false",
		[]string{"a batch is cancelled"}, nil,
	},
	{
		"a message of a cancelled batch does not come again", "elseif is_withdrawn(batch) then", "elseif false then",
		[]string{"a batch is cancelled"}, nil,
	},
	{
		"hashes have a placeholder", "'hot deaths ", "'hot ",
		[]string{"all keys stay for as long as the queue is there"}, nil,
	},
	{
		"sorted sets have a placeholder", "blocked flight ", "blocked ",
		[]string{"all keys stay for as long as the queue is there"}, nil,
	},
	{
		"a token wakes a reader", "redis.pcall('LPUSH', prefix .. 'wake', unpack(tokens))", "",
		[]string{"a sleeping reader", "a sleeping reader and a message that is given back", "a sleeping reader and a retry"},
		[]string{"redis.pcall('LPUSH', prefix .. 'wake', '1')", ""},
	},
	{
		"a reader that sleeps is counted", "n.sleepers = n.sleepers + 1", "",
		[]string{"a sleeping reader", "a sleeping reader and a message that is given back"},
		[]string{"(due == '4' and 1 or 0)", "0"},
	},
	{
		"a reader knows when something is due", "reply[4] = whole(math.max(0, math.min(n.next - now, 1e9)))", "",
		[]string{"a sleeping reader and a delayed message"},
		[]string{"string.format('%010d', pause < 0 and 0 or pause > 1e9 and 1e9 or pause)", "'1000000000'"},
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
				scripts := scripttest.Without(t, library, p.old, p.replacement)
				for j := 0; j < len(p.also); j += 2 {
					scripts = scripttest.Without(t, scripts, p.also[j], p.also[j+1])
				}
				if err := play(t, histories[i], scripts); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
