package expiry

import (
	"testing"

	"github.com/millrace/millrace/internal/script/scripttest"
)

// hashProtections are what keeps the histories from failing, and how to take it
// out.
var hashProtections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"get hides what is expired", "value = score * 1000 > micros and ", "value = ", []string{"an expired field is none"}},
	{"get does not bring what has no deadline's place", "if score == 'inf' then", "if not score or score == 'inf' then", []string{"a hash that has lost its deadlines"}},
	{"ttl hides what is expired", "or deadline > now and math.max(1, deadline - soon) or -2", "or math.max(1, deadline - soon)", []string{"an expired field is none"}},
	{"the length leaves out what is expired", "ARGV[2], '(' .. now, '+inf')\n", "ARGV[2], 0, '+inf')\n", []string{"an expired field is none"}},
	{"scan leaves out what is expired", "if deadline > now then\n    local value", "if true then\n    local value", []string{"an expired field is none"}},
	{"GetAll leaves out what is expired", "'(' .. now, '+inf', 'LIMIT'", "0, '+inf', 'LIMIT'", []string{"an expired field is none"}},
	{"a write knows what is expired", "or tonumber(score or 0)\n", "or score and math.huge or 0\n",
		[]string{"an expired field is none", "set if none is there", "created counts what was not there", "incr keeps a deadline"}},

	{"a life begins when its millisecond is over", "soon + ARGV[5]", "now + ARGV[5]", []string{"a life is whole"}},
	{"get does not count the millisecond that has begun", "left = score - math.ceil(micros / 1000)", "left = score - math.floor(micros / 1000)", []string{"a life is whole"}},
	{"other reads do not count the millisecond that has begun", "math.max(1, deadline - soon)", "math.max(1, deadline - now)", []string{"a life is whole"}},

	{"IfNone", "only == 'new' and alive > 0 or ", "", []string{"set if none is there"}},
	{"IfExist", " or only == 'old' and alive < #fields", "", []string{"set if all are there", "an expired field is none"}},
	{"set clears deadlines", "life == 'keep' and scores[i] or text", "scores[i] ~= '+inf' and scores[i] or text", []string{"set clears a deadline"}},
	{"set keeps deadlines", "life == 'keep' and scores[i] or text", "text", []string{"set keeps deadlines"}},
	{"set keeps no deadline that is past", "    scores[i] = '+inf'\n", "", []string{"set keeps deadlines"}},
	{"a past deadline sets nothing", "if deadline <= now then\n  settle", "if false then\n  settle", []string{"full: delete"}},
	{"what is set at once is gone", "settle(name, fields, alive, most)", "settle(name, {}, 0, most)", []string{"set with a deadline that is past"}},

	{"incr starts again at 0", "redis.call('HSET', h, field, by)", "redis.call('HINCRBY', h, field, by)", []string{"incr keeps a deadline"}},
	{"incr starts again without a deadline", "redis.call('ZADD', t, '+inf', field)", "", []string{"incr keeps a deadline"}},

	{"IfNoTTL", "only == 'without' and has < math.huge or ", "", []string{"expire under conditions", "conditions come before a deadline that is past"}},
	{"IfTTL", "only == 'with' and has == math.huge", "false", []string{"expire under conditions", "conditions come before a deadline that is past"}},
	{"Longer", "deadline <= has or", "false or", []string{"expire under conditions", "the same deadline is neither longer nor shorter"}},
	{"Shorter", "deadline >= has then", "false then", []string{"expire under conditions", "the same deadline is neither longer nor shorter"}},
	{"the same is not longer", "deadline <= has or", "deadline < has or", []string{"the same deadline is neither longer nor shorter"}},
	{"the same is not shorter", "deadline >= has then", "deadline > has then", []string{"the same deadline is neither longer nor shorter"}},
	{"expire needs a field", "if has <= now then\n    codes[i] = -2\n  elseif only", "if false then\n    codes[i] = -2\n  elseif only", []string{"expire of what is not there"}},
	{"expire removes at a past deadline", "elseif deadline <= now then", "elseif false then", []string{"expire at once removes"}},
	{"expire knows what it did", "codes[i], known[field] = 1, deadline", "codes[i] = 1", []string{"a field that is named twice"}},
	{"expire knows what it removed", "codes[i], known[field], gone[#gone + 1] = 2, 0, field", "codes[i], gone[#gone + 1] = 2, field", []string{"expire at once removes"}},
	{"persist needs a field", "if has <= now then\n    codes[i] = -2\n  elseif has", "if false then\n    codes[i] = -2\n  elseif has", []string{"persist"}},
	{"persist knows what it did", "seen[field] then", "false then", []string{"a field that is named twice"}},
	{"delete knows what it did", " and not seen[fields[i]]", "", []string{"a field that is named twice"}},

	{"reap takes what is expired", "'ZRANGEBYSCORE', t, '-inf', now, 'LIMIT', 0, most", "'ZRANGE', t, 0, most - 1", []string{"the index follows"}},
	{"reap takes the field, too", "removed = redis.call('HDEL', h, unpack(gone))", "removed = #gone", []string{"a write sweeps a little"}},
	{"reap takes the deadline, too", "taken = redis.call('ZREM', t, unpack(gone))", "", []string{"the hash goes with its last field"}},
	{"reap corrects the index", "redis.call('ZADD', due, redis.call('ZRANGE', t, 0, 0, 'WITHSCORES')[2], of)", "do end", []string{"the index follows"}},
	{"the index leaves with the last field", "redis.call('ZREM', due, of)\n  end\n  if removed", "end\n  if removed", []string{"the hash goes with its last field"}},
	{"the index learns of new deadlines", "redis.call('ZADD', due, first, of)", "do end", []string{"the index follows"}},
	{"the last field takes along what nobody saw", "redis.call('UNLINK', h) --", "do end --", []string{"a hash that has lost its deadlines"}},
	{"a slice has a budget", "left - math.max(1, removed)", "left", []string{"a slice is bounded"}},
	{"a slice goes on to the next hash", "if left <= 0 then\n    break", "if true then\n    break", []string{"a slice spans hashes"}},
	{"a stranger leaves the index", "if type(values) == 'number' and type(deadlines) == 'number' then", "if true then", []string{"a stranger does not stop the reaping"}},
	{"a write sweeps", "settle(name, {}, 0, most)", "settle(name, {}, 0, 0)", []string{"a write sweeps a little"}},
	{"a write sweeps as much as it writes", "math.max(10, #fields)", "10", []string{"a large write sweeps as much"}},

	{"repair finds deadlines without fields", "orphans[#orphans + 1] = field", "", []string{"a deadline without its field"}},
	{"repair finds an index that is wrong", " and 0 or 1)", " and 0 or 0)", []string{"an index that is wrong"}},
	{"repair takes the ttl of the values", " + redis.call('PERSIST', h)", "", []string{"a ttl of Redis"}},
	{"repair takes the ttl of the deadlines", " + redis.call('PERSIST', t)", "", []string{"a ttl of Redis"}},
	{"repair takes the ttl of the index", " + redis.call('PERSIST', due)", "", []string{"a ttl of Redis"}},
	{"repair takes the ttl of the record", "redis.call('PERSIST', K)", "0", []string{"a ttl of Redis"}},
	{"repair reaps", "settle(name, orphans, 0, 100)", "settle(name, orphans, 0, 0)", []string{"a repair reaps"}},

	{"repeats are known", "if answered then", "if false then", []string{"repeated calls", "a repeat does not overwrite"}},
	{"set is remembered", "answer(tostring(number - alive))", "number - alive", []string{"repeated calls", "a repeat does not overwrite"}},
	{"incr is remembered", "return answer(value)", "return value", []string{"repeated calls"}},
	{"delete and drop are remembered", "answer(tostring(deleted))", "", []string{"repeated calls"}},
	{"expire and persist are remembered", "answer(table.concat(codes, ' '))", "", []string{"repeated calls"}},

	{"the version is checked", "if found[1] and found[1] ~= '2' then", "if false then", []string{"another version"}},
	{"a record without a version is none", "elseif not found[1] and redis.call('EXISTS', K) == 1 then", "elseif false then", []string{"no version"}},
	{"the number of shards is checked", "elseif found[2] ~= ARGV[1] then", "elseif false then", []string{"the namespace began anew"}},
	{"a read looks whether the shard is the right one", "return missing and refusal() or reply", "return reply", []string{"the namespace began anew"}},
	{"the index is looked at first", "redis.call('ZCARD', due) -- what", "do end -- what", []string{"an index of a wrong type"}},
	{"the values are looked at first", "redis.call('HLEN', h) -- what", "do end -- what", []string{"values of a wrong type"}},

	{"full: set begins with what is refused", "local scores = redis.call('ZMSCORE'", "redis.call('HDEL', K, '')\nlocal scores = redis.call('ZMSCORE'",
		[]string{"full: set changes nothing"}},
	{"full: incr begins with what is refused", "local field, by = ARGV[3], ARGV[4]", "redis.call('HDEL', K, '')\nlocal field, by = ARGV[3], ARGV[4]",
		[]string{"full: set changes nothing"}},
	{"full: what drains begins with what is not refused", "redis.call('HDEL', K, '') -- a first", "do end -- a first", []string{"full: deadlines", "full: reap"}},
}

// TestEveryHashProtectionIsNeeded takes each protection out and expects the
// histories to notice.
func TestEveryHashProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range hashProtections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				if err := playHash(t, name, scripttest.Without(t, library, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
