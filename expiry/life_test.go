package expiry

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestHashLife takes fields through all their states.
func TestHashLife(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	ctx := t.Context()

	if got, err := h.Set(ctx, inHash, "a", []byte("1"), SetConfig{}); err != nil || !got {
		t.Errorf("Set of a new field = %+v, %v", got, err)
	}
	if got, err := h.Set(ctx, inHash, "a", []byte("2"), SetConfig{TTL: hashLong}); err != nil || !got {
		t.Errorf("Set of an old field = %+v, %v", got, err)
	}
	got, ttl, err := h.Get(ctx, inHash, "a")
	if err != nil || string(got) != "2" || ttl > hashLong || ttl < hashLong-time.Minute {
		t.Errorf("Get = %q, %v, %v, want 2 for about %v", got, ttl, err, hashLong)
	}
	put(t, h, inHash, "b", "3", 0)
	if got, want := all(t, h, inHash), map[string]string{"a": "2", "b": "3"}; !maps.Equal(got, want) {
		t.Errorf("GetAll = %v, want %v", got, want)
	}
	if got, want := scanned(t, h, inHash), map[string]string{"a": "2", "b": "3"}; !maps.Equal(got, want) {
		t.Errorf("Scan = %v, want %v", got, want)
	}
	many, err := h.GetMany(ctx, inHash, "a", "b", "c")
	if err != nil || len(many) != 2 || string(many["a"].Value) != "2" || many["b"].TTL != NoTTL || many["a"].TTL <= 0 {
		t.Errorf("GetMany = %v, %v", many, err)
	}
	if n := lenOf(t, h, inHash); n != 2 {
		t.Errorf("Len = %d, want 2", n)
	}

	expire(t, h, inHash, "a")
	if _, _, err := h.Get(ctx, inHash, "a"); err == nil {
		t.Error("an expired field is still there")
	}
	for field, want := range map[string]bool{"a": false, "b": true, "c": false} {
		if got, err := timesLeft(ctx, h, inHash, field); err != nil || (got[0] != noField) != want {
			t.Errorf("TTL(%s) = %v, %v, want %v", field, got, err, want)
		}
	}
	if got, want := all(t, h, inHash), map[string]string{"b": "3"}; !maps.Equal(got, want) {
		t.Errorf("GetAll = %v, want %v", got, want)
	}
	if got, want := scanned(t, h, inHash), map[string]string{"b": "3"}; !maps.Equal(got, want) {
		t.Errorf("Scan = %v, want %v", got, want)
	}
	if many, err := h.GetMany(ctx, inHash, "a", "b"); err != nil || len(many) != 1 {
		t.Errorf("GetMany = %v, %v", many, err)
	}
	if n := lenOf(t, h, inHash); n != 1 {
		t.Errorf("Len = %d, want 1", n)
	}
	if n, err := h.Remove(ctx, inHash, "a", "b", "b", "c"); err != nil || n != 1 {
		t.Errorf("Delete = %d, %v, want 1: one was expired, one never there", n, err)
	}
	if values, deadlines := stored(t, h, inHash); values+deadlines+indexed(t, h, inHash) != 0 {
		t.Errorf("%d values and %d deadlines stay behind the last field", values, deadlines)
	}

	put(t, h, inHash, "a", "1", hashLong)
	if was, err := h.RemoveHash(ctx, inHash); err != nil || !was {
		t.Errorf("RemoveHash = %v, %v, want true", was, err)
	}
	if was, err := h.RemoveHash(ctx, inHash); err != nil || was {
		t.Errorf("RemoveHash of nothing = %v, %v, want false", was, err)
	}
	put(t, h, inHash, "a", "1", hashLong)
	expire(t, h, inHash)
	if was, err := h.RemoveHash(ctx, inHash); err != nil || was {
		t.Errorf("RemoveHash of what is expired = %v, %v, want false", was, err)
	}
	if values, deadlines := stored(t, h, inHash); values+deadlines+indexed(t, h, inHash) != 0 {
		t.Errorf("%d values and %d deadlines stay of a deleted hash", values, deadlines)
	}
	s := hashStats(t, h)
	if s.Deleted != 2 || s.Reaped != 2 {
		t.Errorf("counters = %+v, want 2 deleted, 2 reaped", s)
	}
}

// TestFieldIsGoneAtItsTime waits for a deadline by the server's clock.
func TestFieldIsGoneAtItsTime(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	const ttl = 80 * time.Millisecond
	began := time.Now()
	put(t, h, inHash, "a", "1", ttl)
	redistest.Eventually(t, "the field is gone", func() bool { return value(t, h, inHash, "a") == "-" })
	if lived := time.Since(began); lived < ttl {
		t.Errorf("the field lived for %v, less than %v", lived, ttl)
	}
	if n := lenOf(t, h, inHash); n != 0 || len(all(t, h, inHash)) != 0 || len(scanned(t, h, inHash)) != 0 {
		t.Errorf("a hash of expired fields has %d", n)
	}
}

// TestValuesAreAnyBytes stores bytes that are no text, under such names, too.
func TestValuesAreAnyBytes(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	values := map[string]string{"": "", "\x00": "\x00", "\x00\x00": "2", "\x00a": "3", "a b\r\n": "\r\n", "\xff\xfe": "\xff\xfe{}", "ünï": strings.Repeat("x", 1<<16), "-1": "-1"}
	if got, err := h.SetMany(t.Context(), inHash, text(values), SetConfig{TTL: hashLong}); err != nil || !got {
		t.Fatalf("SetMany = %+v, %v", got, err)
	}
	if diff := cmp.Diff(values, all(t, h, inHash)); diff != "" {
		t.Errorf("GetAll (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(values, scanned(t, h, inHash)); diff != "" {
		t.Errorf("Scan (-want +got):\n%s", diff)
	}
	for field, want := range values {
		if got := value(t, h, inHash, field); got != want {
			t.Errorf("Get(%q) = %q, want %q", field, got, want)
		}
	}
	left := len(values)
	for field := range values {
		if n, err := h.Remove(t.Context(), inHash, field); err != nil || n != 1 {
			t.Errorf("Delete(%q) = %d, %v", field, n, err)
		}
		left--
		if _, deadlines := stored(t, h, inHash); int(deadlines) != left || lenOf(t, h, inHash) != left {
			t.Errorf("behind %q there are %d fields and %d deadlines, want %d", field, lenOf(t, h, inHash), deadlines, left)
		}
	}
}

// TestReadsCreateNothing: a namespace comes with its first field.
func TestReadsCreateNothing(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	h := openOn(t, client, "n", Config{})
	ctx := t.Context()
	_, _, err := h.Get(ctx, inHash, "f")
	wantHashError(t, "Get", err, millrace.ErrNotFound)
	if got, err := h.GetMany(ctx, inHash, "f"); err != nil || len(got) != 0 {
		t.Errorf("GetMany = %v, %v", got, err)
	}
	if n := lenOf(t, h, inHash) + len(all(t, h, inHash)) + len(scanned(t, h, inHash)); n != 0 {
		t.Errorf("a hash that is not there has %d fields", n)
	}
	if got := ttlOf(t, h, inHash, "f"); got != noField {
		t.Errorf("TTL = %v", got)
	}
	if got, err := h.Expire(ctx, inHash, hashLong, ExpireConfig{}, "f", "g"); err != nil || !cmp.Equal(got, []Outcome{HasNoField, HasNoField}) {
		t.Errorf("Expire = %v, %v", got, err)
	}
	if got, err := h.Expire(ctx, inHash, NoTTL, ExpireConfig{}, "f"); err != nil || !cmp.Equal(got, []Outcome{HasNoField}) {
		t.Errorf("Persist = %v, %v", got, err)
	}
	if n, err := h.Remove(ctx, inHash, "f"); err != nil || n != 0 {
		t.Errorf("Delete = %d, %v", n, err)
	}
	if was, err := h.RemoveHash(ctx, inHash); err != nil || was {
		t.Errorf("RemoveHash = %v, %v", was, err)
	}
	for _, job := range []millrace.Job{h.Jobs()[0], Jobs(client)[0]} {
		if got, err := job.Slice(ctx); err != nil || got != millrace.Idle {
			t.Errorf("%s = %v, %v", job.Name, got, err)
		}
	}
	if s := hashStats(t, h); s != (Stats{Name: "n"}) {
		t.Errorf("Stats = %+v", s)
	}
	if names := listed(t, client); len(names) != 0 {
		t.Errorf("List = %v", names)
	}
	if n := integer(t, client, "DBSIZE"); n != 0 {
		t.Errorf("%d keys were created", n)
	}
	put(t, h, inHash, "f", "1", 0)
	_, _, err = h.Get(ctx, inHash, "other")
	wantHashError(t, "Get", err, millrace.ErrNotFound)
	if names := listed(t, client); !cmp.Equal(names, []string{"n"}) {
		t.Errorf("List = %v", names)
	}
}

// TestHashArguments refuses invalid arguments, before Redis is asked.
func TestHashArguments(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := redistest.Shared(t).Client(t)
	for _, name := range []string{"", "a{b", "a}", "\n", strings.Repeat("n", 513)} {
		_, err := Open(ctx, client, name, Config{})
		wantHashError(t, "Open", err, millrace.ErrBadName)
	}
	for _, shards := range []int{-1, 257} {
		_, err := Open(ctx, client, "n", Config{Shards: shards})
		wantHashError(t, "Open", err, millrace.ErrBadArgument)
	}
	h := open(t, Config{})
	for name, call := range map[string]func(hash string) error{
		"Set":        func(hash string) error { _, err := h.Set(ctx, hash, "f", nil, SetConfig{}); return err },
		"SetMany":    func(hash string) error { _, err := h.SetMany(ctx, hash, nil, SetConfig{}); return err },
		"Get":        func(hash string) error { _, _, err := h.Get(ctx, hash, "f"); return err },
		"GetMany":    func(hash string) error { _, err := h.GetMany(ctx, hash); return err },
		"GetAll":     func(hash string) error { _, err := h.GetAll(ctx, hash); return err },
		"Len":        func(hash string) error { _, err := h.Len(ctx, hash); return err },
		"TTL":        func(hash string) error { _, err := timesLeft(ctx, h, hash); return err },
		"Expire":     func(hash string) error { _, err := h.Expire(ctx, hash, 1, ExpireConfig{}); return err },
		"Persist":    func(hash string) error { _, err := h.Expire(ctx, hash, NoTTL, ExpireConfig{}); return err },
		"Incr":       func(hash string) error { _, err := h.Incr(ctx, hash, "f", 1); return err },
		"Delete":     func(hash string) error { _, err := h.Remove(ctx, hash); return err },
		"RemoveHash": func(hash string) error { _, err := h.RemoveHash(ctx, hash); return err },
		"Scan": func(hash string) error {
			for _, err := range h.Scan(ctx, hash) {
				return err
			}
			return nil
		},
	} {
		for _, hash := range []string{"", "{", "\x7f", strings.Repeat("n", 513)} {
			wantHashError(t, name, call(hash), millrace.ErrBadName)
		}
	}
	for _, cfg := range []SetConfig{
		{TTL: -1}, {TTL: 1, Deadline: time.Now()}, {TTL: 1, KeepTTL: true}, {Deadline: time.Now(), KeepTTL: true},
		{IfNone: true, IfExist: true}, {Deadline: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		_, err := h.Set(ctx, inHash, "f", nil, cfg)
		wantHashError(t, fmt.Sprintf("Set with %+v", cfg), err, millrace.ErrBadArgument)
	}
	_, err := h.Expire(ctx, inHash, -time.Second, ExpireConfig{}, "f")
	wantHashError(t, "Expire", err, millrace.ErrBadArgument)
	for _, cfg := range []ExpireConfig{{IfTTL: true}, {Deadline: time.Now()}} {
		_, err = h.Expire(ctx, inHash, NoTTL, cfg, "f")
		wantHashError(t, "Expire", err, millrace.ErrBadArgument)
	}
	_, err = h.Expire(ctx, inHash, 1, ExpireConfig{IfTTL: true, IfLonger: true}, "f")
	wantHashError(t, "Expire", err, millrace.ErrBadArgument)
	_, err = h.Expire(ctx, inHash, 0, ExpireConfig{Deadline: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, "f")
	wantHashError(t, "Expire", err, millrace.ErrBadArgument)
	_, err = h.Expire(ctx, inHash, 1, ExpireConfig{Deadline: time.Now()}, "f")
	wantHashError(t, "Expire", err, millrace.ErrBadArgument)
	_, err = h.SetMany(ctx, inHash, text(map[string]string{}), SetConfig{TTL: -1})
	wantHashError(t, "SetMany", err, millrace.ErrBadArgument)
	tooMany := map[string][]byte{}
	for i := range maxFields + 1 {
		tooMany[fmt.Sprint(i)] = nil
	}
	_, err = h.SetMany(ctx, inHash, tooMany, SetConfig{})
	wantHashError(t, "SetMany of 1,001", err, millrace.ErrBadArgument)
	if n := lenOf(t, h, inHash); n != 0 {
		t.Errorf("refused calls set %d fields", n)
	}
}

// TestTimesAreRoundedUp: a field never goes before its time.
func TestTimesAreRoundedUp(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration]string{0: "0", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", math.MaxInt64: "9223372036855"} {
		if _, got, err := in(ttl); err != nil || got != want {
			t.Errorf("in(%d) = %s, %v, want %s", ttl, got, err, want)
		}
	}
	for moment, want := range map[time.Time]string{
		time.UnixMilli(5): "5", time.UnixMilli(5).Add(1): "6", time.UnixMilli(6).Add(-1): "6", time.UnixMilli(-5): "0", {}: "0",
	} {
		if _, got, err := at(moment); err != nil || got != want {
			t.Errorf("at(%v) = %s, %v, want %s", moment, got, err, want)
		}
	}
}

// TestIncr counts in 64 bits.
func TestIncr(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	ctx := t.Context()
	incr := func(field string, by, want int64) {
		t.Helper()
		if got, err := h.Incr(ctx, inHash, field, by); err != nil || got != want {
			t.Errorf("Incr(%s, %d) = %d, %v, want %d", field, by, got, err, want)
		}
	}
	incr("n", 5, 5)
	incr("n", -7, -2)
	put(t, h, inHash, "big", "9007199254740993", hashLong)
	incr("big", 2, 9007199254740995)
	if ttl := ttlOf(t, h, inHash, "big"); ttl <= 0 {
		t.Errorf("TTL after Incr = %v, want it kept", ttl)
	}
	expire(t, h, inHash, "big")
	incr("big", math.MinInt64, math.MinInt64)
	if ttl := ttlOf(t, h, inHash, "big"); ttl != NoTTL {
		t.Errorf("TTL after Incr of an expired field = %v, want none", ttl)
	}
	_, err := h.Incr(ctx, inHash, "big", -1)
	wantHashError(t, "Incr below 64 bits", err, ErrNotNumber)
	put(t, h, inHash, "text", "1.5", 0)
	_, err = h.Incr(ctx, inHash, "text", 1)
	wantHashError(t, "Incr of text", err, ErrNotNumber)
	if got := value(t, h, inHash, "text") + value(t, h, inHash, "big"); got != "1.5-9223372036854775808" {
		t.Errorf("refused Incrs changed values: %s", got)
	}
}

// TestLargeRequests are split, and answered in order.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	const n = 2*maxFields + 500
	putMany(t, h, inHash, n, hashLong)
	fields := make([]string, 0, n+1)
	for i := range n {
		fields = append(fields, fmt.Sprint("f", i))
	}
	fields = append(fields, "none")
	ctx := t.Context()
	if got, err := h.GetMany(ctx, inHash, fields...); err != nil || len(got) != n || string(got["f2499"].Value) != "2499" {
		t.Errorf("GetMany = %d, %v, want %d", len(got), err, n)
	}
	ttls, err := timesLeft(ctx, h, inHash, fields...)
	if err != nil || len(ttls) != n+1 || ttls[n] != noField || ttls[n-1] <= 0 {
		t.Errorf("TTL = %d answers, %v", len(ttls), err)
	}
	codes, err := h.Expire(ctx, inHash, 2*hashLong, ifLonger, fields...)
	if err != nil || len(codes) != n+1 || codes[0] != Applied || codes[n-1] != Applied || codes[n] != HasNoField {
		t.Errorf("Expire = %d answers, %v", len(codes), err)
	}
	codes, err = h.Expire(ctx, inHash, NoTTL, ExpireConfig{}, fields...)
	if err != nil || len(codes) != n+1 || codes[0] != Applied || codes[n-1] != Applied || codes[n] != HasNoField {
		t.Errorf("Persist = %d answers, %v", len(codes), err)
	}
	if got, err := h.Remove(ctx, inHash, fields...); err != nil || got != n {
		t.Errorf("Delete = %d, %v, want %d", got, err, n)
	}
}
