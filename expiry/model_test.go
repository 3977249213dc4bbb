package expiry

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// modelField is a field as the model has it.
type modelField struct {
	value string
	hours int // that it lives for, 0 without a deadline
}

// hashModel is the expected hash: only the fields that exist.
type hashModel map[string]modelField

var (
	modelFields = []string{"a", "b", "c", "d", ""}
	modelNames  = rapid.SampledFrom(modelFields)
	modelHours  = rapid.IntRange(1, 9)
)

// TestHashModel compares a hash with a model of it, in random histories.
func TestHashModel(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	names := 0
	rapid.Check(t, func(r *rapid.T) {
		names++
		h := openOn(t, client, redistest.Name(t)+strconv.Itoa(names), Config{Shards: 1})
		p := &hashPlay{T: r, t: t, h: h, m: hashModel{}}
		r.Repeat(map[string]func(*rapid.T){
			"set":     p.set,
			"incr":    p.incr,
			"expire":  p.expire,
			"persist": p.persist,
			"delete":  p.delete,
			"drop":    p.drop,
			"over":    p.over,
			"upkeep":  p.upkeep,
			"":        p.check,
		})
	})
}

// hashPlay plays one random history on a hash and on its model.
type hashPlay struct {
	*rapid.T

	t *testing.T
	h *Hashes
	m hashModel
}

func (p *hashPlay) want(what string, got, want any, err error) {
	p.Helper()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		p.Fatalf("%s: %v (-want +got):\n%s", what, err, diff)
	}
}

func (p *hashPlay) set(r *rapid.T) {
	fields := rapid.SliceOfNDistinct(modelNames, 1, 3, rapid.ID).Draw(r, "fields")
	life := rapid.SampledFrom([]string{"none", "ttl", "at", "past", "keep"}).Draw(r, "life")
	only := rapid.SampledFrom([]string{"", "", "new", "old"}).Draw(r, "only")
	hours := modelHours.Draw(r, "hours")
	value := rapid.SampledFrom([]string{"", "7", "text", "\x00\xff"}).Draw(r, "value")
	cfg := SetConfig{IfNone: only == "new", IfExist: only == "old", KeepTTL: life == "keep"}
	switch life {
	case "ttl":
		cfg.TTL = time.Duration(hours) * time.Hour
	case "at":
		cfg.Deadline = time.Now().Add(time.Duration(hours) * time.Hour)
	case "past":
		cfg.Deadline = time.Now().Add(-time.Second)
	}

	values, there := map[string][]byte{}, 0
	for _, f := range fields {
		values[f] = []byte(value)
		if _, ok := p.m[f]; ok {
			there++
		}
	}
	want := (!cfg.IfNone || there == 0) && (!cfg.IfExist || there == len(fields))
	got, err := p.h.SetMany(p.t.Context(), inHash, values, cfg)
	p.want("SetMany", got, want, err)
	if !want {
		return
	}
	for _, f := range fields {
		switch life {
		case "past":
			delete(p.m, f)
		case "keep":
			p.m[f] = modelField{value, p.m[f].hours}
		case "none":
			p.m[f] = modelField{value: value}
		default:
			p.m[f] = modelField{value, hours}
		}
	}
}

func (p *hashPlay) incr(r *rapid.T) {
	field, by := modelNames.Draw(r, "field"), rapid.Int64Range(-5, 5).Draw(r, "by")
	got, err := p.h.Incr(p.t.Context(), inHash, field, by)
	old, there := p.m[field]
	n, bad := strconv.ParseInt(old.value, 10, 64)
	if there && bad != nil {
		if !errors.Is(err, ErrNotNumber) {
			p.Fatalf("Incr of %q = %d, %v", old.value, got, err)
		}
		return
	}
	p.want("Incr", got, n+by, err)
	p.m[field] = modelField{strconv.FormatInt(n+by, 10), old.hours}
}

func (p *hashPlay) expire(r *rapid.T) {
	fields := rapid.SliceOfN(modelNames, 1, 3).Draw(r, "fields")
	only := rapid.SampledFrom([]ExpireConfig{always, ifNoTTL, ifTTL, ifLonger, ifShorter}).Draw(r, "only")
	hours := rapid.IntRange(0, 9).Draw(r, "hours")
	want, after := make([]Outcome, len(fields)), maps.Clone(p.m)
	for i, f := range fields {
		old, there := after[f]
		const forever = 1000
		current := old.hours
		if current == 0 {
			current = forever
		}
		switch {
		case !there:
			want[i] = HasNoField
		case only == ifNoTTL && current != forever, only == ifTTL && current == forever,
			only == ifLonger && hours < current, only == ifShorter && hours > current:
			want[i] = NotMet
		case (only == ifLonger || only == ifShorter) && hours == current:
			p.Skip("which is the longer of two deadlines that were set a moment apart is the clock's secret")
		case hours == 0:
			want[i] = Removed
			delete(after, f)
		default:
			want[i] = Applied
			after[f] = modelField{old.value, hours}
		}
	}
	p.m = after
	got, err := p.h.Expire(p.t.Context(), inHash, time.Duration(hours)*time.Hour, only, fields...)
	p.want(fmt.Sprintf("Expire(%q)", fields), got, want, err)
}

func (p *hashPlay) persist(r *rapid.T) {
	fields := rapid.SliceOfN(modelNames, 1, 3).Draw(r, "fields")
	want := make([]Outcome, len(fields))
	for i, f := range fields {
		old, there := p.m[f]
		switch {
		case !there:
			want[i] = HasNoField
		case old.hours == 0:
			want[i] = HasNoTTL
		default:
			want[i] = Applied
			p.m[f] = modelField{value: old.value}
		}
	}
	got, err := p.h.Expire(p.t.Context(), inHash, NoTTL, ExpireConfig{}, fields...)
	p.want("Persist", got, want, err)
}

func (p *hashPlay) delete(r *rapid.T) {
	fields := rapid.SliceOfN(modelNames, 1, 3).Draw(r, "fields")
	want := len(p.m)
	for _, f := range fields {
		delete(p.m, f)
	}
	got, err := p.h.Remove(p.t.Context(), inHash, fields...)
	p.want("Delete", got, want-len(p.m), err)
}

func (p *hashPlay) drop(*rapid.T) {
	got, err := p.h.RemoveHash(p.t.Context(), inHash)
	p.want("RemoveHash", got, len(p.m) > 0, err)
	clear(p.m)
}

// over lets the deadline of a field come.
func (p *hashPlay) over(r *rapid.T) {
	field := modelNames.Draw(r, "field")
	expire(p.t, p.h, inHash, field)
	if p.m[field].hours > 0 {
		delete(p.m, field)
	}
}

func (p *hashPlay) upkeep(r *rapid.T) {
	job := rapid.SampledFrom([]string{"reap", "repair"}).Draw(r, "job")
	base := baseOf(p.t, p.h, inHash)
	var err error
	switch job {
	case "reap":
		_, err = p.h.Jobs()[0].Slice(p.t.Context())
	case "repair":
		_, _, _, err = repairHash(p.t.Context(), p.h.space, base, 1, inHash, position{}, -1)
		if millrace.Code(err) == "no_shard" {
			err = nil
		}
	}
	p.want(job, nil, nil, err)
	if repaired := hashStats(p.t, p.h).Repaired; repaired != 0 {
		p.Fatalf("%d things were repaired, and nothing was broken", repaired)
	}
	if job == "reap" && len(p.m) == 0 {
		if values, deadlines := stored(p.t, p.h, inHash); values+deadlines+indexed(p.t, p.h, inHash) != 0 {
			p.Fatalf("%d values and %d deadlines stay behind the last field", values, deadlines)
		}
	}
}

// check asks one of the reading calls.
func (p *hashPlay) check(r *rapid.T) {
	want := map[string]string{}
	for f, field := range p.m {
		want[f] = field.value
	}
	switch rapid.SampledFrom([]string{"all", "scan", "len", "many", "ttl", "index"}).Draw(r, "question") {
	case "all":
		p.want("GetAll", all(p.t, p.h, inHash), want, nil)
	case "scan":
		p.want("Scan", scanned(p.t, p.h, inHash), want, nil)
	case "len":
		p.want("Len", lenOf(p.t, p.h, inHash), len(want), nil)
	case "many":
		many, err := p.h.GetMany(p.t.Context(), inHash, modelFields...)
		got := map[string]string{}
		for f, v := range many {
			got[f] = string(v.Value)
			p.want("whether "+f+" has a deadline", v.TTL != NoTTL, p.m[f].hours > 0, nil)
		}
		p.want("GetMany", got, want, err)
	case "ttl":
		p.checkTTL()
	case "index":
		p.checkIndex()
	}
}

func (p *hashPlay) checkTTL() {
	ttls, err := timesLeft(p.t.Context(), p.h, inHash, modelFields...)
	for i, f := range modelFields {
		field, there := p.m[f]
		left := time.Duration(field.hours) * time.Hour
		switch {
		case !there:
			left = noField
		case field.hours == 0:
			left = NoTTL
		case ttls[i] <= left+time.Millisecond && ttls[i] > left-time.Hour/2: // deadlines are rounded up
			ttls[i] = left
		}
		p.want("TTL of "+f, ttls[i], left, err)
	}
}

// checkIndex wants the hash to be in the index with the time of its record, which is no later than
// its first deadline.
func (p *hashPlay) checkIndex() {
	head, err := do(p.h.space.Run.Client, "ZRANGE", deadlinesKey(baseOf(p.t, p.h, inHash), inHash), "0", "0", "WITHSCORES").ToArray()
	if err != nil || len(head) == 0 {
		p.want("the deadlines", nil, nil, err)
		return
	}
	pair, err := head[0].ToArray()
	if err != nil {
		p.Fatal(err)
	}
	first, err := pair[1].AsFloat64()
	base := baseOf(p.t, p.h, inHash)
	at, missing := do(p.h.space.Run.Client, "ZSCORE", base+":due", inHash).AsFloat64()
	record := raw(p.t, p.h.space.Run.Client, "HGET", valuesKey(base, inHash), "")
	if err != nil || missing != nil || at > first || record != recordOf(at) {
		p.Fatalf("the index looks after the hash at %f, and its first deadline is %f, its record %q: %v, %v", at, first, record, missing, err)
	}
}
