package scatter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// flush writes one session, which must succeed.
func flush(t *testing.T, sc *Scatter, fill func(*Session)) {
	t.Helper()
	s := sc.Session("x")
	fill(s)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSessionWritesPlainTypes reads the values of a session with commands that any
// client has.
func TestSessionWritesPlainTypes(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	c := servers[0].Client(t)
	before := time.Now().Add(-time.Second)
	for range 2 {
		flush(t, sc, func(s *Session) {
			s.Add("clicks", 2)
			s.Add("clicks", -5)
			s.AddFloat("cost", 0.25)
			s.Insert("users", "ann", "bob", "ann")
			s.Insert("nobody")
			s.Score("pages", "/a", 1.5, Sum)
			s.Score("pages", "/a", 1, Sum)
			s.Score("speed", "ann", 7, Max)
			s.Score("speed", "ann", 3, Max)
			s.Score("delay", "ann", 7, Min)
			s.Score("delay", "ann", 3, Min)
			s.Push("events", 3, []byte("one"))
			s.Push("events", 3, []byte("two words"))
		})
	}
	for key, want := range map[string]string{"clicks": "-6", "cost": "0.5"} {
		if got := text(t, c, "GET", key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]string{"pages": "5", "speed": "7", "delay": "3"} {
		member := "ann"
		if key == "pages" {
			member = "/a"
		}
		if got := text(t, c, "ZSCORE", key, member); got != want {
			t.Errorf("%s of %s = %q, want %q", key, member, got, want)
		}
	}
	users := words(t, c, "SMEMBERS", "users")
	slices.Sort(users)
	if diff := cmp.Diff([]string{"ann", "bob"}, users); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	var bodies []string
	for _, entry := range words(t, c, "LRANGE", "events", "0", "-1") {
		at, body, err := parseEntry(entry)
		if err != nil || at.Before(before) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("entry %q is of %v, %v", entry, at, err)
		}
		bodies = append(bodies, string(body))
	}
	if diff := cmp.Diff([]string{"two words", "one", "two words"}, bodies); diff != "" {
		t.Errorf("the newest three (-want +got):\n%s", diff)
	}
	if got := words(t, c, "HMGET", sc.base+":meta", "version", "flushes", "forever"); !slices.Equal(got, []string{"1", "2", "1"}) {
		t.Errorf("version, flushes and forever = %v, want 1, 2 and 1", got)
	}
	if n := integer(t, c, "EXISTS", "nobody"); n != 0 {
		t.Error("a set without members was written")
	}
}

// TestSumsFitOrNothingIsWritten adds to counters near the ends of 64 bits. A session
// whose other half would not fit writes nothing.
func TestSumsFitOrNothingIsWritten(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	c := servers[0].Client(t)
	for i, tt := range []struct {
		before string
		add    int64
		want   string // "" if it does not fit
		err    error
	}{
		{"", 0, "0", nil},
		{"", math.MaxInt64, "9223372036854775807", nil},
		{"", math.MinInt64, "-9223372036854775808", nil},
		{"9223372036854775806", 1, "9223372036854775807", nil},
		{"9223372036854775807", 1, "", ErrOverflow},
		{"1", math.MaxInt64, "", ErrOverflow},
		{"9223372036854775807", math.MaxInt64, "", ErrOverflow},
		{"-9223372036854775807", -1, "-9223372036854775808", nil},
		{"-9223372036854775808", -1, "", ErrOverflow},
		{"-1", math.MinInt64, "", ErrOverflow},
		{"-9223372036854775808", math.MinInt64, "", ErrOverflow},
		{"-9223372036854775808", math.MaxInt64, "-1", nil},
		{"9223372036854775807", math.MinInt64, "-1", nil},
		{"999999999", 1, "1000000000", nil},
		{"-1000000000", 1, "-999999999", nil},
		{"-5", 3, "-2", nil},
		{"9223372036854775808", -5, "", ErrType},
		{"99999999999999999999", -5, "", ErrType},
		{"1.5", 1, "", ErrType},
		{"007", 1, "", ErrType},
		{"-0", 1, "", ErrType},
		{"+1", 1, "", ErrType},
		{" 1", 1, "", ErrType},
		{"one", 1, "", ErrType},
		{"1\n", 1, "", ErrType},
	} {
		key, other := fmt.Sprint("n", i), fmt.Sprint("other", i)
		if tt.before != "" {
			must(t, c, "SET", key, tt.before)
		}
		s := sc.Session("x")
		s.Add(other, 1)
		s.Add(key, tt.add)
		err := s.Flush(t.Context())
		wantError(t, err, tt.err)
		want, wantOther := tt.want, "1"
		if tt.err != nil {
			want, wantOther = tt.before, ""
		}
		if got := text(t, c, "GET", key); got != want {
			t.Errorf("%q and %d = %q, want %q", tt.before, tt.add, got, want)
		}
		if got := text(t, c, "GET", other); got != wantOther {
			t.Errorf("beside %q and %d: %q, want %q", tt.before, tt.add, got, wantOther)
		}
	}
}

func TestFloatSums(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	c := servers[0].Client(t)
	for i, tt := range []struct {
		before string
		add    float64
		want   string
		err    error
	}{
		{"", 0.1, "0.1", nil},
		{"3", 0.5, "3.5", nil},
		{"1e3", -1e-3, "999.999", nil},
		{"", 1e21, "1000000000000000000000", nil},
		{"1e308", 1e308, "", ErrOverflow},
		{"-1e308", -1e308, "", ErrOverflow},
		{"inf", 1, "", ErrType},
		{"nan", 1, "", ErrType},
		{"1e999", 1, "", ErrType},
		{" 1", 1, "", ErrType},
		{"0x10", 1, "", ErrType},
		{"1.2.3", 1, "", ErrType},
		{"x", 1, "", ErrType},
	} {
		key, other := fmt.Sprint("x", i), fmt.Sprint("other", i)
		if tt.before != "" {
			must(t, c, "SET", key, tt.before)
		}
		s := sc.Session("x")
		s.Add(other, 1)
		s.AddFloat(key, tt.add)
		wantError(t, s.Flush(t.Context()), tt.err)
		want := tt.want
		if tt.err != nil {
			want = tt.before
		}
		if got := text(t, c, "GET", key); got != want {
			t.Errorf("%q and %v = %q, want %q", tt.before, tt.add, got, want)
		}
		if got := text(t, c, "GET", other); (got == "1") != (tt.err == nil) {
			t.Errorf("beside %q and %v: %q", tt.before, tt.add, got)
		}
	}
}

// TestFloatsBesideWideCalls: a Redis 6.2 that was built without jemalloc dies of an
// INCRBYFLOAT in a script that calls commands of many words, too.
func TestFloatsBesideWideCalls(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a server that dies so may hang
	defer cancel()
	for range 20 {
		s := sc.Session("x")
		for i := range 15 {
			for j := range 60 {
				s.Insert(fmt.Sprint("set", i), fmt.Sprint(j))
			}
			s.AddFloat(fmt.Sprint("sum", i), 0.1)
		}
		if err := s.Flush(ctx); err != nil {
			servers[0].Kill()
			t.Fatal(err)
		}
	}
	if got, want := text(t, servers[0].Client(t), "GET", "sum0"), "2"; got != want {
		t.Errorf("a sum is %s, want %s", got, want)
	}
}

// TestWrongTypes: if a key has a value of another type, nothing at all is written,
// and the error names the key.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	c := servers[0].Client(t)
	must(t, c, "HSET", "hash", "a", "b")
	for name, write := range map[string]func(*Session){
		"Add":      func(s *Session) { s.Add("hash", 1) },
		"AddFloat": func(s *Session) { s.AddFloat("hash", 1) },
		"Push":     func(s *Session) { s.Push("hash", 1, nil) },
		"Insert":   func(s *Session) { s.Insert("hash", "a") },
		"Score":    func(s *Session) { s.Score("hash", "a", 1, Sum) },
		"Best":     func(s *Session) { s.Score("hash", "a", 1, Max) },
		"Least":    func(s *Session) { s.Score("hash", "a", 1, Min) },
		"both":     func(s *Session) { s.Add("hash2", 1); s.Insert("hash2", "a") },
	} {
		s := sc.Session("x")
		s.Add("beside", 1)
		write(s)
		err := s.Flush(t.Context())
		wantError(t, err, ErrType)
		if err != nil && !strings.Contains(err.Error(), `"hash`) {
			t.Errorf("%s: %v does not name the key", name, err)
		}
	}
	if got := words(t, c, "KEYS", "*"); !slices.Equal(got, []string{"hash"}) {
		t.Errorf("keys = %v, want the hash alone", got)
	}
}

// TestUsersNameIsNoOverflow: a server's text is not taken for the cause, if the name
// of the user is among its words.
func TestUsersNameIsNoOverflow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	admin := server.Client(t)
	setUser := admin.B().AclSetuser().Username("overflow").Rule("on", ">secret", "~*", "&*", "+@all", "-incrby").Build()
	if err := admin.Do(t.Context(), setUser).Error(); err != nil {
		t.Fatal(err)
	}
	client := server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "overflow", "secret" })
	s := scatterOver(t, []Server{{Name: "s0", Client: client}}, Config{}).Session("x")
	s.Add("n", 1)
	if err := s.Flush(t.Context()); !retry.Denied(err) || errors.Is(err, ErrOverflow) {
		t.Errorf("Flush = %v (code %q), want that the user lacks a permission", err, millrace.Code(err))
	}
}

// TestWhatCannotBeHad: Flush reports invalid operations before anything is sent.
func TestWhatCannotBeHad(t *testing.T) {
	t.Parallel()
	sc := scatterOver(t, nowhere(2), Config{})
	for name, tt := range map[string]struct {
		write func(*Session)
		err   error
	}{
		"no name":         {func(s *Session) { s.Add("", 1) }, millrace.ErrBadName},
		"a long name":     {func(s *Session) { s.Add(strings.Repeat("n", 501), 1) }, millrace.ErrBadName},
		"a control":       {func(s *Session) { s.Insert("a\nb", "c") }, millrace.ErrBadName},
		"our own":         {func(s *Session) { s.Push("mr:x", 1, nil) }, millrace.ErrBadName},
		"an overflow":     {func(s *Session) { s.Add("a", math.MaxInt64); s.Add("a", 1) }, ErrOverflow},
		"an underflow":    {func(s *Session) { s.Add("a", math.MinInt64); s.Add("a", -1) }, ErrOverflow},
		"a big float":     {func(s *Session) { s.AddFloat("a", 1e308); s.AddFloat("a", 1e308) }, ErrOverflow},
		"no number":       {func(s *Session) { s.AddFloat("a", math.NaN()) }, millrace.ErrBadArgument},
		"infinite":        {func(s *Session) { s.AddFloat("a", math.Inf(-1)) }, millrace.ErrBadArgument},
		"infinite score":  {func(s *Session) { s.Score("a", "b", math.Inf(1), Sum) }, millrace.ErrBadArgument},
		"no best":         {func(s *Session) { s.Score("a", "b", math.NaN(), Max) }, millrace.ErrBadArgument},
		"no cap":          {func(s *Session) { s.Push("a", 0, nil) }, millrace.ErrBadArgument},
		"a big cap":       {func(s *Session) { s.Push("a", maxCap+1, nil) }, millrace.ErrBadArgument},
		"a big body":      {func(s *Session) { s.Push("a", 1, make([]byte, maxBody+1)) }, millrace.ErrTooLarge},
		"a big member":    {func(s *Session) { s.Insert("a", strings.Repeat("m", maxBody+1)) }, millrace.ErrTooLarge},
		"a big name":      {func(s *Session) { s.Score("a", strings.Repeat("m", maxBody+1), 1, Max) }, millrace.ErrTooLarge},
		"much in all":     {func(s *Session) { s.Push("a", 1, make([]byte, maxBody)) }, millrace.ErrTooLarge},
		"half seconds":    {func(s *Session) { s.In(Bucket{Every: time.Second / 2}) }, millrace.ErrBadArgument},
		"negative keep":   {func(s *Session) { s.In(Bucket{Keep: -1}) }, millrace.ErrBadArgument},
		"before 1970":     {func(s *Session) { s.In(Bucket{At: time.Unix(-1, 0)}) }, millrace.ErrBadArgument},
		"too many":        {func(s *Session) { s.Insert("a", make([]string, maxOperations+1)...) }, millrace.ErrBadArgument},
		"too many of two": {func(s *Session) { s.Insert("a", make([]string, maxOperations)...); s.Add("b", 1) }, millrace.ErrBadArgument},
	} {
		s := sc.Session("x")
		s.Add("beside", 1)
		tt.write(s)
		if err := s.Flush(t.Context()); !errors.Is(err, tt.err) {
			t.Errorf("%s: error = %v, want %v", name, err, tt.err)
		}
	}
	if err := sc.Session("x").Flush(t.Context()); err != nil {
		t.Errorf("an empty session: %v", err)
	}
	for _, shard := range []func(string, int) int{func(string, int) int { return -1 }, func(_ string, n int) int { return n }} {
		s := scatterOver(t, nowhere(2), Config{Shard: shard}).Session("x")
		s.Add("a", 1)
		wantError(t, s.Flush(t.Context()), millrace.ErrBadArgument)
	}
}

// TestInfiniteScores: the best and the least may be infinite.
func TestInfiniteScores(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	flush(t, sc, func(s *Session) {
		s.Score("b", "x", math.Inf(1), Max)
		s.Score("b", "x", -1, Sum)
		s.Score("l", "x", math.Inf(-1), Min)
	})
	c := servers[0].Client(t)
	if b, l := text(t, c, "ZSCORE", "b", "x"), text(t, c, "ZSCORE", "l", "x"); b != "inf" || l != "-inf" {
		t.Errorf("scores = %s and %s, want inf and -inf", b, l)
	}
}

// TestAFullSession writes as much as one call takes.
func TestAFullSession(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	members := make([]string, maxOperations-2)
	for i := range members {
		members[i] = fmt.Sprint("m", i)
	}
	flush(t, sc, func(s *Session) {
		s.Add("n", 1)
		s.Push("l", 1, make([]byte, maxBytes-10_000))
		s.Insert("s", members...)
	})
	flush(t, sc, func(s *Session) { s.Push("alone", 1, make([]byte, maxBody)) })
	c := servers[0].Client(t)
	if got, want := integer(t, c, "SCARD", "s"), int64(len(members)); got != want {
		t.Errorf("members = %d, want %d", got, want)
	}
	flush(t, sc, func(s *Session) {
		for i := range maxOperations {
			s.Push("l", 10, fmt.Append(nil, i))
		}
	})
	if got := words(t, c, "LRANGE", "l", "0", "-1"); len(got) != 10 || !strings.HasSuffix(got[0], " 999") || !strings.HasSuffix(got[9], " 990") {
		t.Errorf("list = %v, want 999 to 990", got)
	}
}

// TestOneEventOneServer: a session reaches the server of its shard key alone, and
// nothing connects to a server that gets nothing.
func TestOneEventOneServer(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 4)
	var list []Server
	for i, one := range servers {
		list = append(list, Server{Name: fmt.Sprint("s", i), Option: optionOf(one)})
	}
	sc := scatterOver(t, list, Config{})
	event := func(sc *Scatter, key string) {
		t.Helper()
		s := sc.Session(key)
		for i := range 30 {
			s.Add(fmt.Sprint("counter", i), 1)
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		event(sc, "the same")
	}
	for i, one := range servers {
		connections, want := one.Info("stats")["total_connections_received"], ringHash("the same", 4) == i
		wrote := integer(t, one.Client(t), "EXISTS", "counter0", "counter29")
		if (wrote == 2) != want {
			t.Errorf("server %d has %d of the counters", i, wrote)
		}
		if c := connected(sc, i); c != want {
			t.Errorf("server %d was connected to: %v, want %v (%s connections in all)", i, c, want, connections)
		}
	}
}

// brief is for servers that do not answer on purpose.
const brief = 500 * time.Millisecond

// arrive flushes a session until it has arrived: repeats do no harm, as these tests
// show, and a busy machine needs some.
func arrive(t *testing.T, s *Session) {
	t.Helper()
	redistest.Eventually(t, "it is flushed", func() bool { return s.Flush(t.Context()) == nil })
}

// TestTokens: a session whose reply was lost is written once, by the library's repeat
// and by the caller's; a new one is a new one.
func TestTokens(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc, proxies := throughProxies(t, servers, Config{Timeout: brief})
	c := servers[0].Client(t)
	s := sc.Session("x")
	for i := range 3 {
		lost := proxies[0].DropReply(redistest.Named("EVALSHA"))
		s.Add("n", 1)
		s.Push("l", 10, []byte("e"))
		arrive(t, s)
		if got, want := text(t, c, "GET", "n"), fmt.Sprint(i+1); got != want || i > 0 && lost.Count() != 1 {
			t.Errorf("after %d flushes: %s, want %s; %d replies lost", i+1, got, want, lost.Count())
		}
	}

	proxies[0].DropReplyWhen(redistest.Named("EVALSHA", "EVAL"))
	s.Add("n", 10)
	if err := s.Flush(t.Context()); err == nil {
		t.Fatal("a flush without any reply succeeds")
	} else if !strings.Contains(err.Error(), "server s0") {
		t.Errorf("error %q does not name the server", err)
	}
	s.Add("n", 100) // goes with the next one
	proxies[0].Heal()
	arrive(t, s)
	if got := text(t, c, "GET", "n"); got != "113" {
		t.Errorf("sum = %s, want 113", got)
	}
	if got := integer(t, c, "LLEN", "l"); got != 3 {
		t.Errorf("entries = %d, want 3", got)
	}
	arrive(t, s)
	if got := text(t, c, "HGET", sc.base+":meta", "flushes"); got != "5" {
		t.Errorf("flushes = %s, want 5", got)
	}
}

// TestRepeatBehindOthers: a flush whose reply is lost counts once, though 25,000 other
// flushes of its server come before the caller's repeat.
func TestRepeatBehindOthers(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc, proxies := throughProxies(t, servers, Config{Timeout: brief})
	flush(t, sc, func(s *Session) { s.Add("n", 1) }) // so that the script is there
	proxies[0].DropReplyWhen(redistest.Named("EVALSHA"))
	s := sc.Session("x")
	s.Add("n", 1_000_000)
	if err := s.Flush(t.Context()); err == nil {
		t.Fatal("a flush without any reply succeeds")
	}
	proxies[0].Heal()
	var others redistest.Pipeline
	for i := range 25_000 {
		others.Add("EVALSHA", library.Script("flush").SHA(), "1", sc.base, "9999999999999", "add", "", "2", "n", "1",
			fmt.Sprint("other:", i%50), fmt.Sprintf("%016dAAAAAAAAAAA", i))
	}
	others.Send(t, servers[0])
	arrive(t, s)
	if got := text(t, servers[0].Client(t), "GET", "n"); got != "1025001" {
		t.Errorf("sum = %s, want 1025001", got)
	}
}

// TestARepeatGoesToTheSameServer: where one server may have written, no other one does.
func TestARepeatGoesToTheSameServer(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	sc, proxies := throughProxies(t, servers, Config{Shard: RoundRobin(), Timeout: brief})
	proxies[0].DropReplyWhen(redistest.Named("EVALSHA", "EVAL"))
	s := sc.Session("x")
	s.Add("n", 1)
	if err := s.Flush(t.Context()); err == nil {
		t.Fatal("a flush without any reply succeeds")
	}
	proxies[0].Heal()
	arrive(t, s)
	for i, want := range []string{"1", "", ""} {
		if got := text(t, servers[i].Client(t), "GET", "n"); got != want {
			t.Errorf("server %d has %q, want %q", i, got, want)
		}
	}
}

// TestVersion: data of another version is left alone.
func TestVersion(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	must(t, servers[0].Client(t), "HSET", sc.base+":meta", "version", "2")
	s := sc.Session("x")
	s.Add("n", 1)
	wantError(t, s.Flush(t.Context()), millrace.ErrVersion)
	if n := integer(t, servers[0].Client(t), "EXISTS", "n"); n != 0 {
		t.Error("it was written all the same")
	}
}

// TestTroubledServers: a dead, slow, read-only and full server fail their sessions
// within the timeout, with nothing written twice, and the other servers are not
// touched by it.
func TestTroubledServers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		hurt, mend func(*redistest.Server, *redistest.Proxy)
		err        error
	}{
		{"dead", func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Restart() }, nil},
		{
			"paused",
			func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() },
			func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() },
			nil,
		},
		{
			"slow",
			func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(2 * brief) },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(0) },
			nil,
		},
		{
			"read-only",
			func(s *redistest.Server, _ *redistest.Proxy) { must(t, s.Client(t), "REPLICAOF", "127.0.0.1", "1") },
			func(s *redistest.Server, _ *redistest.Proxy) { must(t, s.Client(t), "REPLICAOF", "NO", "ONE") },
			nil,
		},
		{
			"full",
			func(s *redistest.Server, _ *redistest.Proxy) { must(t, s.Client(t), "CONFIG", "SET", "maxmemory", "1") },
			func(s *redistest.Server, _ *redistest.Proxy) { must(t, s.Client(t), "CONFIG", "SET", "maxmemory", "0") },
			millrace.ErrFull,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, 2)
			sc, proxies := throughProxies(t, servers, Config{Timeout: brief, Shard: func(key string, _ int) int { return len(key) }})
			write := func(s *Session, n int64) {
				s.Add("n", n)
				s.Push("l", 10, []byte("e"))
				s.Score("z", "m", 1, Max)
			}
			s, other := sc.Session(""), sc.Session("1")
			write(s, 1)
			arrive(t, s)
			tt.hurt(servers[0], proxies[0])
			write(s, 10)
			start := time.Now()
			err := s.Flush(t.Context())
			if took := time.Since(start); err == nil || took > 20*brief {
				t.Errorf("Flush = %v after %v, want an error after %v", err, took, brief)
			}
			if tt.err != nil {
				wantError(t, err, tt.err)
			}
			write(other, 1)
			arrive(t, other)
			tt.mend(servers[0], proxies[0])
			arrive(t, s)
			want := "11"
			if tt.name == "dead" { // it keeps nothing
				want = "10"
			}
			if got := text(t, servers[0].Client(t), "GET", "n"); got != want {
				t.Errorf("sum = %s, want %s", got, want)
			}
		})
	}
}
