package expiry

import (
	"testing"

	"github.com/millrace/millrace/internal/test/scripttest"
)

// hashProtections are the safeguards that keep the histories from failing, and how to take
// each out.
var hashProtections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"the length leaves out what is expired", "return stored - redis.call('ZCOUNT', t, '-inf', now)", "return stored", []string{"an expired field is none"}},
	{"the length is not told without an index", "if stored > 0 and not redis.call('ZSCORE', t, '') then", "if false then", []string{"a hash that has lost its deadlines"}},
	{"a new hash says that its index is whole", "redis.call('ZADD', t, '+inf', '')\n  end", "end", []string{"a new hash has a whole index"}},
	{"a write knows what is expired", "alive = alive + (had[i] > now and 1 or 0)", "alive = alive + (had[i] > 0 and 1 or 0)",
		[]string{"an expired field is none", "set if none is there"}},
	{"a write goes by what stands in front of the value", "local deadlines, values, number = {}, stored_of(h, places)", "local deadlines, values, number = {}, {}, 0", []string{"a hash that has lost its deadlines"}},
	{"incr knows what is expired", "local old = had > now and", "local old = had > 0 and", []string{"incr keeps a deadline"}},
	{"incr adds in vain", "if type(added) == 'table' then", "if false then", []string{"incr of what is no number"}},
	{"incr clears up", "redis.call('HDEL', K, 'sum')", "do end", []string{"incr of what is no number"}},
	{"a delete knows what is expired", "(had[i] or math.huge) > now", "(had[i] or math.huge) > 0", []string{"an expired field is none"}},
	{"what has no mark is no value", "if mark ~= 250 or version ~= 2 or not f then", "if not f then", []string{"something else in the place of a value"}},
	{"a condition needs a value", "if not had[i] and (only ~= '' or life == 'keep') then", "if false then", []string{"something else in the place of a value"}},
	{"expire needs a value", "if not had[i] then\n    return", "if false then\n    return", []string{"something else in the place of a value"}},
	{"incr needs a value", "if not had then\n  return", "if false then\n  return", []string{"something else in the place of a value"}},

	{"a life begins when its millisecond is over", "life == 'in' and soon or 0", "life == 'in' and now or 0", []string{"a life is whole"}},

	{"IfNone", "only == 'new' and alive > 0 or ", "", []string{"set if none is there"}},
	{"IfExist", " or only == 'old' and alive < number", "", []string{"set if all are there", "an expired field is none"}},
	{"set clears deadlines", "life == 'keep' and had[i] > now\n", "(had[i] or 0) > now\n", []string{"set clears a deadline"}},
	{"set clears the index", "unlisted[#unlisted + 1] = place", "", []string{"set clears a deadline"}},
	{"set keeps deadlines", "life == 'keep' and had[i] > now\n", "false\n", []string{"set keeps deadlines"}},
	{"set keeps no deadline that is past", "life == 'keep' and had[i] > now\n", "life == 'keep' and had[i] > 0\n", []string{"set keeps deadlines"}},
	{"a past deadline sets nothing", "elseif deadline <= now then\n    settle", "elseif false then\n    settle", []string{"full: delete"}},
	{"what is set at once is gone", "settle(name, places, alive, math.max(10, number), at)", "settle(name, {}, 0, math.max(10, number), at)", []string{"set with a deadline that is past"}},

	{"incr starts again without a deadline", "head_of(had > now and had or math.huge)", "head_of(had > 0 and had or math.huge)", []string{"incr keeps a deadline"}},
	{"incr keeps its deadline", "head_of(had > now and had or math.huge)", "head_of(math.huge)", []string{"incr keeps a deadline"}},

	{"IfNoTTL", "only == 'without' and has[field] < math.huge or ", "", []string{"expire under conditions", "conditions come before a deadline that is past"}},
	{"IfTTL", "only == 'with' and has[field] == math.huge", "false", []string{"expire under conditions", "conditions come before a deadline that is past"}},
	{"Longer", "deadline <= has[field] or", "false or", []string{"expire under conditions", "the same deadline is neither longer nor shorter"}},
	{"Shorter", "deadline >= has[field] then", "false then", []string{"expire under conditions", "the same deadline is neither longer nor shorter"}},
	{"the same is not longer", "deadline <= has[field] or", "deadline < has[field] or", []string{"the same deadline is neither longer nor shorter"}},
	{"the same is not shorter", "deadline >= has[field] then", "deadline > has[field] then", []string{"the same deadline is neither longer nor shorter"}},
	{"expire needs a field", "if has[field] <= now then", "if false then", []string{"an expired field is none"}},
	{"expire removes at a past deadline", "if not seen[field] and had[i] > now and has[field] <= now then", "if false then", []string{"expire at once removes"}},
	{"expire knows what it did", "has[field], done = deadline, true", "done = true", []string{"a field that is named twice"}},
	{"expire writes the value", "head_of(has[field]) .. string.sub(values[i], 9)", "values[i]", []string{"expire sets a deadline"}},
	{"expire writes the index", "list(field, has[field])\n", "", []string{"the index follows"}},
	{"delete knows what it did", "not seen[field] and ", "", []string{"a field that is named twice"}},

	{"reap goes by what stands in front of the value", "if deadline > now and deadline < math.huge then", "if false then", []string{"the index of a hash is wrong"}},
	{"reap leaves what has no deadline", "gone[#gone + 1] = deadline <= now and overdue[i] or nil", "gone[#gone + 1] = overdue[i]", []string{"the index of a hash is wrong"}},
	{"reap enters the right deadline", "redis.call('ZADD', t, unpack(late))", "do end", []string{"the index of a hash is wrong"}},
	{"reap takes the field, too", "removed = redis.call('HDEL', h, unpack(gone))", "removed = #gone", []string{"a write sweeps a little"}},
	{"reap takes the deadline, too", "redis.call('ZREM', t, unpack(places))", "do end", []string{"a write sweeps a little"}},
	{"the index of a hash goes with its last field", "redis.call('UNLINK', h, t)\n    redis", "redis", []string{"the hash goes with its last field"}},
	{"reap corrects the index", "first = redis.call('ZRANGE', t, 0, 0, 'WITHSCORES')[2] or 'inf'", "first = at", []string{"the index follows"}},
	{"the index leaves with the last field", "redis.call('ZREM', due, of)\n    return", "return", []string{"the hash goes with its last field"}},
	{"the index learns of new deadlines", "redis.call('ZADD', due, first, of)", "do end", []string{"the index follows"}},
	{"a slice has a budget", "left - math.max(1, looked)", "left", []string{"a slice is bounded"}},
	{"a slice goes on to the next hash", "if left <= 0 then\n    break", "if true then\n    break", []string{"a slice spans hashes"}},
	{"a hash of a wrong type leaves the index", "if type(values) == 'number' and type(deadlines) == 'number' then", "if true then", []string{"a hash of a wrong type does not stop the reaping"}},
	{"a write sweeps", "math.max(10, number)", "0", []string{"a write sweeps a little"}},
	{"a write sweeps as much as it writes", "math.max(10, number)", "10", []string{"a large write sweeps as much"}},

	{"repair finds deadlines without fields", "mended = mended + redis.call('ZREM', t, page[2][i])", "", []string{"a deadline without its field"}},
	{"repair finds fields without a deadline's place", "redis.call('ZADD', t, string.format('%.0f', deadline), place)", "do end", []string{"some deadlines are lost"}},
	{"repair says that the index is whole", "redis.call('ZADD', t, 'NX', '+inf', '')", "0", []string{"a hash that has lost its deadlines"}},
	{"repair finds an index that is wrong", " and 0 or 1)", " and 0 or 0)", []string{"an index that is wrong"}},
	{"repair takes the ttl of the values", " + redis.call('PERSIST', h)", "", []string{"a ttl of Redis"}},
	{"repair takes the ttl of the deadlines", " + redis.call('PERSIST', t)", "", []string{"a ttl of Redis"}},
	{"repair takes the ttl of the index", " + redis.call('PERSIST', due)", "", []string{"a ttl of Redis"}},
	{"repair takes the ttl of the record", "redis.call('PERSIST', K)", "0", []string{"a ttl of Redis"}},
	{"repair reaps", "settle(name, {}, 0, 100, right", "settle(name, {}, 0, 0, right", []string{"a repair reaps"}},

	{"repeats are known", "if answered then", "if false then", []string{"repeated calls", "a repeat does not overwrite"}},
	{"set is remembered", "  answer('1')\n", "", []string{"repeated calls", "a repeat does not overwrite"}},
	{"incr is remembered", "return answer(sum)", "return sum", []string{"repeated calls"}},
	{"delete and drop are remembered", "answer(tostring(deleted))", "", []string{"repeated calls"}},
	{"expire and persist are remembered", "answer(table.concat(codes, ' '))", "", []string{"repeated calls"}},

	{"the version is checked", "if found[1] and found[1] ~= wire then", "if false then", []string{"another version"}},
	{"a record without a version is none", "elseif not found[1] and redis.call('EXISTS', K) == 1 then", "elseif false then", []string{"no version"}},
	{"a shard that exists stays", "if not (refused and string.match(refused.err, '%u+') == 'NOSHARD') then", "if false then", []string{"a shard that exists is not begun anew"}},
	{"the number of shards is checked", "elseif found[2] ~= ARGV[1] then", "elseif false then", []string{"the namespace began anew"}},
	{"the index is looked at first", "if time_of(redis.call('ZSCORE', due, name)) ~= at then", "if false then", []string{"an index of a wrong type", "an index that is wrong"}},
	{"the values are looked at first", "local fields, at = fields_of(h), at_of(h)", "local fields, at = 0, 0", []string{"values of a wrong type"}},
	{"the version of a hash is checked", "if not at then\n  return", "if false then\n  return", []string{"a hash of another version"}},
	{"a place is checked by delete", "if field == '' then", "if false then", []string{"a field without a place"}},
	{"a place is checked by set", "    if ARGV[i] == '' then", "    if false then", []string{"a field without a place"}},
	{"a place is checked by incr and expire", "places[i] ~= '' and", "", []string{"a field without a place"}},

	{"quick: the version is checked", "string.sub(record, 9) == layout and deadline_of(record)", "deadline_of(record)", []string{"a hash of another version"}},
	{"quick: not if something has expired", "if at > now and deadline", "if at > 0 and deadline", []string{"a write sweeps a little"}},
	{"quick: not before the time of the record", "and deadline >= at then", "then", []string{"the index follows"}},
	{"quick: a place is checked", "      if ARGV[i] == '' then", "      if false then", []string{"a field without a place"}},
	{"quick: the index is written first", "redis.call('ZADD', t, unpack(listed))", "redis.pcall('ZADD', t, unpack(listed))", []string{"deadlines of a wrong type, of a hash that exists"}},
	{"quick: the index is looked at first", "elseif at < math.huge then\n      redis.call('ZCARD', t)", "elseif at < math.huge then\n      ", []string{"deadlines of a wrong type, of a hash that exists"}},
	{"quick: the index is written", "redis.call('ZADD', t, unpack(listed))", "redis.call('ZCARD', t)", []string{"a deadline that is moved"}},
	{"quick: deadlines leave the index", "redis.call('ZREM', t, unpack(listed))", "", []string{"set clears a deadline"}},

	{"full: set begins with what is refused", "local function assign(from", "redis.call('HDEL', K, '')\nlocal function assign(from",
		[]string{"full: set changes nothing"}},
	{"full: incr begins with what is refused", "local field, sum = ARGV[3], ARGV[4]", "redis.call('HDEL', K, '')\nlocal field, sum = ARGV[3], ARGV[4]",
		[]string{"full: set changes nothing"}},
	{"full: what drains begins with what is not refused", "redis.call('HDEL', K, '') -- a full", "do end -- a first", []string{"full: deadlines", "full: reap"}},
}

// TestEveryHashProtectionIsNeeded takes each protection out and expects the
// histories to notice.
func TestEveryHashProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range hashProtections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				if err := playHash(t, name, scripttest.Without(t, kind.Library, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
