package expiry

import (
	"testing"
)

// hashProtections are what keeps the histories from failing, and how to take it
// out.
var hashProtections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"get hides what is expired", "if left <= math.floor(clock[2] / 1000) then\n    return false", "if false then\n    return false", []string{"an expired field is none"}},
	{"mget hides what is expired", "values[i] and left ~= 0", "values[i]", []string{"an expired field is none"}},
	{"ttl hides what is expired", "local there = left ~= 0 and ", "local there = ", []string{"an expired field is none"}},
	{"the length leaves out what is expired", " - redis.call('ZCOUNT', t, '-inf', now))\n", " - 0)\n", []string{"an expired field is none"}},
	{"scan leaves out what is expired", "if left ~= 0 then", "if true then", []string{"an expired field is none"}},
	{"GetAll leaves out what is expired", "redis.call('ZRANGEBYSCORE', t, '-inf', now, 'LIMIT', 0, ARGV[2])", "{}", []string{"an expired field is none"}},
	{"a write knows what is expired", "return score and tonumber(score) <= now", "return false",
		[]string{"an expired field is none", "set if none is there", "expire at once removes", "created counts what was not there", "incr keeps a deadline"}},

	{"a life begins when its millisecond is over", "soon + ARGV[5]", "now + ARGV[5]", []string{"a life is whole"}},
	{"get does not count the millisecond that has begun", "left - math.ceil(clock[2] / 1000)", "left - math.floor(clock[2] / 1000)", []string{"a life is whole"}},
	{"other reads do not count the millisecond that has begun", "score - clock[1] * 1000 - math.ceil(clock[2] / 1000)", "score - now", []string{"a life is whole"}},

	{"IfNone", "only == 'new' and alive > 0 or ", "", []string{"set if none is there"}},
	{"IfExist", " or only == 'old' and alive < #fields", "", []string{"set if all are there", "an expired field is none"}},
	{"set clears deadlines", "elseif life == 'none' then\n    changed = redis.call('ZREM', t, unpack(fields))", "elseif life == 'none' then", []string{"set clears a deadline"}},
	{"set keeps no deadline that is past", "elseif #stale > 0 then\n    changed = redis.call('ZREM', t, unpack(stale))\n", "", []string{"set keeps deadlines"}},
	{"created counts expired fields", "created = created + redis.call('HEXISTS', h, fields[i])", "", []string{"created counts what was not there"}},
	{"a past deadline sets nothing", "if expired(deadline) then\n  if #stale", "if false then\n  if #stale", []string{"set with a deadline that is past"}},
	{"a field that is removed has no deadline", "changed = redis.call('ZREM', t, unpack(fields))\nelse", "\nelse", []string{"set with a deadline that is past"}},

	{"incr starts again at 0", "redis.call('HSET', h, field, by)", "redis.call('HINCRBY', h, field, by)", []string{"incr keeps a deadline"}},
	{"incr starts again without a deadline", "redis.call('ZREM', t, field)", "", []string{"incr keeps a deadline"}},

	{"IfNoTTL", "only == 'without' and has or ", "", []string{"expire under conditions", "conditions come before a deadline that is past"}},
	{"IfTTL", "only == 'with' and not has", "false", []string{"expire under conditions", "conditions come before a deadline that is past"}},
	{"Longer", "deadline <= (has or math.huge)", "false", []string{"expire under conditions", "the same deadline is neither longer nor shorter"}},
	{"Shorter", "deadline >= (has or math.huge)", "false", []string{"expire under conditions", "the same deadline is neither longer nor shorter"}},
	{"no deadline never comes", "deadline <= (has or math.huge)", "has and deadline <= has", []string{"expire under conditions"}},
	{"the same is not longer", "deadline <= (has", "deadline < (has", []string{"the same deadline is neither longer nor shorter"}},
	{"the same is not shorter", "deadline >= (has", "deadline > (has", []string{"the same deadline is neither longer nor shorter"}},
	{"expire needs a field", " or redis.call('HEXISTS', h, field) == 0 then\n    codes[i] = -2\n  elseif only", " then\n    codes[i] = -2\n  elseif only", []string{"expire of what is not there"}},
	{"expire removes at a past deadline", "elseif expired(deadline) then", "elseif false then", []string{"expire at once removes"}},
	{"expire knows what it did", "codes[i], known[field] = 1, deadline", "codes[i] = 1", []string{"a field that is named twice"}},
	{"expire knows what it removed", "codes[i], known[field], gone[#gone + 1] = 2, false, field", "codes[i], gone[#gone + 1] = 2, field", []string{"expire at once removes"}},
	{"persist needs a field", " or redis.call('HEXISTS', h, field) == 0 then\n    codes[i] = -2\n  elseif not", " then\n    codes[i] = -2\n  elseif not", []string{"persist"}},
	{"persist knows what it did", "seen[field] then", "false then", []string{"a field that is named twice"}},

	{"reap takes what is expired", "'ZRANGEBYSCORE', t, '-inf', now, 'LIMIT', 0, most", "'ZRANGE', t, 0, most - 1", []string{"a field that is written again is not reaped", "the index follows"}},
	{"reap takes the field, too", "local reaped = redis.call('HDEL', h, unpack(gone))", "local reaped = #gone", []string{"the hash goes with its last field"}},
	{"reap takes the deadline, too", "redis.call('ZREM', t, unpack(gone))\n    count", "count", []string{"the hash goes with its last field"}},
	{"reap corrects the index", "n = sweep(of, left)\n    rescore(of)", "n = sweep(of, left)", []string{"the index follows"}},
	{"the index leaves with the last deadline", "redis.call('ZREM', due, of)\n  end\nend", "end\nend", []string{"the hash goes with its last field", "persist"}},
	{"the index takes the earlier deadline", "redis.call('ZADD', due, 'LT', text, name)", "redis.call('ZADD', due, text, name)", []string{"the index follows"}},
	{"the index learns of new deadlines", "redis.call('ZADD', due, 'LT', text, name)", "", []string{"the index follows"}},
	{"a slice has a budget", "left - math.max(1, n)", "left", []string{"a slice is bounded"}},
	{"a slice goes on to the next hash", "if left <= 0 then\n    break", "if true then\n    break", []string{"a slice spans hashes"}},
	{"a stranger leaves the index", "if sound(of) then", "if true then", []string{"a stranger does not stop the reaping"}},
	{"a write sweeps", "if sweep(name, 10) > 0 or changed then", "if changed then", []string{"a write sweeps a little"}},

	{"repair finds deadlines without fields", "orphans[#orphans + 1] = field", "", []string{"a deadline without its field"}},
	{"repair finds hashes that are not indexed", "if head ~= (known or nil) then", "if false then", []string{"a hash that its index has lost"}},
	{"repair takes the ttl of the values", " + redis.call('PERSIST', h)", "", []string{"a ttl of Redis"}},
	{"repair takes the ttl of the deadlines", " + redis.call('PERSIST', t)", "", []string{"a ttl of Redis"}},
	{"repair takes the ttl of the index", " + redis.call('PERSIST', due)", "", []string{"a ttl of Redis"}},
	{"repair takes the ttl of the record", "redis.call('PERSIST', K)", "0", []string{"a ttl of Redis"}},
	{"repair reaps", "local reaped = sweep(name, 100)", "local reaped = 0", []string{"a repair reaps"}},

	{"repeats are known", "~= '1' and reqid_recall(id)", "== 'x' and reqid_recall(id)", []string{"repeated calls", "a repeat does not overwrite"}},
	{"set is remembered", "reqid_remember(id, tostring(created))", "", []string{"repeated calls", "a repeat does not overwrite"}},
	{"incr is remembered", "reqid_remember(id, value)", "", []string{"repeated calls"}},
	{"delete and drop are remembered", "reqid_remember(id, tostring(deleted))", "", []string{"repeated calls"}},
	{"expire and persist are remembered", "reqid_remember(id, table.concat(codes, ' '))", "", []string{"repeated calls"}},

	{"the version is checked", "if version and version ~= '1' then", "if false then", []string{"another version"}},
	{"a record without a version is none", "elseif not version and redis.call('EXISTS', K) == 1 then", "elseif false then", []string{"no version"}},
	{"the index is looked at first", "redis.call('ZCARD', due)\n\nlocal clock", "local clock", []string{"an index of a wrong type"}},
	{"drop looks at the values", "local stored = redis.call('HLEN', h)", "local stored = 0", []string{"values of a wrong type"}},

	{"full: set begins with what is refused", "local fields, stale, alive, created = {}, {}, 0, 0", "redis.call('HDEL', K, '')\nlocal fields, stale, alive, created = {}, {}, 0, 0",
		[]string{"full: set changes nothing"}},
	{"full: incr begins with what is refused", "local stale = expired(redis.call('ZSCORE', t, field))", "redis.call('HDEL', K, '')\nlocal stale = expired(redis.call('ZSCORE', t, field))",
		[]string{"full: set changes nothing"}},
	{"full: expire begins with what is not refused", "redis.call('HDEL', K, '')\n  if #gone", "if #gone", []string{"full: deadlines"}},
	{"full: reap begins with what is not refused", "redis.call('HDEL', K, '')\nfor", "for", []string{"full: reap"}},
}

// TestEveryHashProtectionIsNeeded takes each protection out and expects the
// histories to notice.
func TestEveryHashProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range hashProtections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				if err := playHash(t, name, withoutProtection(t, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
