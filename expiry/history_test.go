package expiry

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
)

// A hashHistory plays one way in which hashes could break their word. It is played
// with the scripts as they are, and with a protection taken out of them, when it
// has to notice.
type hashHistory struct {
	name string
	play func(s *hashTale)
}

// hashTale is one play. It keeps the first thing that was wrong.
type hashTale struct {
	*testing.T

	h      *Hashes
	client rueidis.Client
	err    error
}

// want notes a difference.
func (s *hashTale) want(what string, got, want any, err error) {
	s.Helper()
	diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(reaping{}))
	if s.err == nil && (err != nil || diff != "") {
		s.err = fmt.Errorf("%s = %w (-want +got):\n%s", what, err, diff)
	}
}

func (s *hashTale) wantError(what string, err, want error) {
	if s.err == nil && !errors.Is(err, want) {
		s.err = fmt.Errorf("%s = %w, want %w", what, err, want)
	}
}

// set sets fields, each to its own name, and wants the result.
func (s *hashTale) set(cfg SetConfig, want bool, fields ...string) {
	s.Helper()
	values := map[string][]byte{}
	for _, f := range fields {
		values[f] = []byte(f)
	}
	got, err := s.h.SetMany(s.Context(), inHash, values, cfg)
	s.want(fmt.Sprintf("SetMany(%q) with %+v", fields, cfg), got, want, err)
}

// put sets new fields.
func (s *hashTale) put(ttl time.Duration, fields ...string) {
	s.Helper()
	s.set(SetConfig{TTL: ttl}, true, fields...)
}

func (s *hashTale) expire(ttl time.Duration, only ExpireConfig, field string, want Outcome) {
	s.Helper()
	got, err := s.h.Expire(s.Context(), inHash, ttl, only, field)
	s.want(fmt.Sprintf("Expire(%s, %s) if %+v", ttl, field, only), got, []Outcome{want}, err)
}

func (s *hashTale) persist(field string, want Outcome) {
	s.Helper()
	got, err := s.h.Expire(s.Context(), inHash, NoTTL, ExpireConfig{}, field)
	s.want("Persist("+field+")", got, []Outcome{want}, err)
}

// ttl wants the rest of a field's life: NoTTL, noField, or about a time.
func (s *hashTale) ttl(field string, want time.Duration) {
	s.Helper()
	got, err := timesLeft(s.Context(), s.h, inHash, field)
	if err == nil && want > 0 && got[0] > want-time.Minute && got[0] <= want {
		got[0] = want
	}
	s.want("TTL("+field+")", got, []time.Duration{want}, err)
}

// there wants those fields, by every call that reads fields.
func (s *hashTale) there(want ...string) {
	s.Helper()
	ctx := s.Context()
	n, err := s.h.Len(ctx, inHash)
	s.want("Len", n, len(want), err)
	values, err := s.h.GetAll(ctx, inHash)
	names := []string{}
	for f := range values {
		names = append(names, f)
	}
	slices.Sort(names)
	s.want("GetAll", names, want, err)
	names = names[:0]
	for f, err := range s.h.Scan(ctx, inHash) {
		s.want("Scan", nil, nil, err)
		names = append(names, f.Name)
	}
	slices.Sort(names)
	s.want("Scan", names, want, nil)
	for _, f := range []string{"a", "b", "c"} {
		_, _, err := s.h.Get(ctx, inHash, f)
		got := err == nil
		if errors.Is(err, millrace.ErrNotFound) {
			err = nil
		}
		s.want("Get("+f+")", got, slices.Contains(want, f), err)
	}
	many, err := s.h.GetMany(ctx, inHash, "a", "b", "c")
	s.want("GetMany", len(many), len(want), err)
}

// gone wants no key of the hash.
func (s *hashTale) gone() {
	s.Helper()
	values, deadlines := stored(s.T, s.h, inHash)
	s.want("what is left of a hash without fields", []int64{values, deadlines, indexed(s.T, s.h, inHash)}, []int64{0, 0, 0}, nil)
}

// again runs a script twice under the same request, the second time as a repeat, and
// wants the same answer.
func (s *hashTale) again(what, name string, args ...string) {
	s.Helper()
	request := s.h.space.Run.Request(s.Context())
	defer request.Done()
	var answers []string
	for range 2 {
		reply, err := s.h.space.Call(s.Context(), request, true, name, inHash, append([]string{inHash}, args...)...)
		s.want(what, nil, nil, err)
		text := ""
		for err == nil && reply.More() {
			text += reply.Text() + " "
		}
		answers = append(answers, text)
	}
	s.want("answer to a repeated "+what, answers[1], answers[0], nil)
}

// reaping is the result of one call that reaps.
type reaping struct {
	fields   int64
	progress millrace.Progress
}

func (s *hashTale) reap() reaping {
	before := hashStats(s.T, s.h).Reaped
	progress, err := s.h.reap(s.Context(), baseOf(s.T, s.h, inHash), 1, true)
	s.want("reap", nil, nil, err)
	return reaping{hashStats(s.T, s.h).Reaped - before, progress}
}

// repair mends the hash.
func (s *hashTale) repair() bool {
	done, _, _, err := repairHash(s.Context(), s.h.space, baseOf(s.T, s.h, inHash), 1, inHash, position{}, -1)
	s.want("repair", nil, nil, err)
	return done
}

// over lets deadlines come, see expire.
func (s *hashTale) over(fields ...string) { expire(s.T, s.h, inHash, fields...) }

func (s *hashTale) fill() { must(s.T, s.client, "CONFIG", "SET", "maxmemory", "1") }

// dump returns all that is stored in the hash's shard.
func (s *hashTale) dump() string {
	base := baseOf(s.T, s.h, inHash)
	text := ""
	for _, key := range []string{base, valuesKey(base, inHash), deadlinesKey(base, inHash), base + ":due"} {
		one, _ := do(s.client, "DUMP", key).ToString()
		text += strconv.Quote(one) + "\n"
	}
	return text
}

var set, notSet = true, false

// hashHistories play on a server that is not full.
var hashHistories = slices.Concat(replyHistories, indexHistories, refusedHistories)

// playHash plays a history with the scripts given, in a namespace of one shard.
func playHash(t *testing.T, name string, scripts *script.Library) error {
	t.Helper()
	client, list := redistest.Shared(t).Client(t), hashHistories
	if strings.HasPrefix(name, "full: ") {
		client, list = redistest.Start(t, redistest.Options{}).Client(t), fullHashHistories
	}
	i := slices.IndexFunc(list, func(h hashHistory) bool { return h.name == name })
	s := &hashTale{T: t, h: openOn(t, client, redistest.Name(t), Config{Shards: 1}), client: client}
	s.h.space.Run.Scripts = scripts
	list[i].play(s)
	return s.err
}

// TestHashHistories plays calls in a given order, with faults between them, and compares each reply.
func TestHashHistories(t *testing.T) {
	t.Parallel()
	for _, h := range slices.Concat(hashHistories, fullHashHistories) {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := playHash(t, h.name, kind.Library); err != nil {
				t.Error(err)
			}
		})
	}
}
