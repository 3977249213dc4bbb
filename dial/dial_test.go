package dial

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/address"
	"github.com/millrace/millrace/internal/test/redistest"
)

// roundTrip sets and gets one key.
func roundTrip(t *testing.T, c rueidis.Client) {
	t.Helper()
	key := redistest.Name(t)
	if err := c.Do(t.Context(), c.B().Set().Key(key).Value("v").Build()).Error(); err != nil {
		t.Fatalf("SET: %v", err)
	}
	if got, err := c.Do(t.Context(), c.B().Get().Key(key).Build()).ToString(); err != nil || got != "v" {
		t.Errorf("GET = %q, %v, want v", got, err)
	}
}

func mustOpen(t *testing.T, url string) rueidis.Client {
	t.Helper()
	c, err := Redis(t.Context(), url)
	if err != nil {
		t.Fatalf("Redis(%q): %v", url, err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestOpenOneServer(t *testing.T) {
	t.Parallel()
	unix := redistest.Shared(t)
	tcp := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--requirepass", "p,w/d@"}})
	for _, url := range []string{
		unix.URL(),
		"unix:" + unix.Addr(),
		unix.URL() + "?db=1&client_cache=1",
		"redis://:p%2Cw%2Fd%40@" + tcp.Addr() + "/2",
	} {
		roundTrip(t, mustOpen(t, url))
	}
}

func TestOpenCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	for name, url := range map[string]string{"every seed": cluster.URL(), "one seed": cluster.Nodes[1].URL()} {
		c := mustOpen(t, url)
		if got, want := c.Mode(), rueidis.ClientModeCluster; got != want {
			t.Errorf("%s: Mode() = %q, want %q", name, got, want)
		}
		for range 10 {
			roundTrip(t, c)
		}
	}
}

func TestOpenSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.Sentinels(t, 1)
	c := mustOpen(t, s.URL())
	if got, want := c.Mode(), rueidis.ClientModeSentinel; got != want {
		t.Errorf("Mode() = %q, want %q", got, want)
	}
	roundTrip(t, c)

	_, err := Redis(t.Context(), strings.Replace(s.URL(), "master_set=", "master_set=other", 1))
	if !errors.Is(err, ErrConnect) || !strings.Contains(millrace.Hint(err), "master_set") {
		t.Errorf("Redis with an unknown master_set = %v (hint %q), want ErrConnect with a hint at master_set", err, millrace.Hint(err))
	}
}

// Structures make calls with both a deadline and a cancel all day.
func TestOpenedClientNoticesCancel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Options{})
	c := mustOpen(t, s.URL())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 50 { // the client opens its connections as it comes to use them
		if err := c.Do(ctx, c.B().Get().Key("k").Build()).Error(); !rueidis.IsRedisNil(err) {
			t.Fatalf("GET: %v", err)
		}
	}
	s.Pause()
	t.Cleanup(s.Resume)
	var cancelled time.Time
	time.AfterFunc(20*time.Millisecond, func() {
		cancelled = time.Now()
		cancel()
	})
	err := c.Do(ctx, c.B().Get().Key("k").Build()).Error()
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled GET = %v, want context.Canceled", err)
	}
	if took := time.Since(cancelled); took > time.Second {
		t.Errorf("a cancelled GET returned after %v, want at once", took)
	}
}

func TestOpenRefusesURL(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ url, message, hint string }{
		{"", "empty", "redis://"},
		{"localhost:6379", "localhost:6379", "redis://"},
		{"127.0.0.1:6379", "malformed", "redis://"},
		{"http://x", "invalid URL scheme: http", "redis://"},
		{"redis://h/notanumber", "invalid database number", "redis://"},
		{"unix://tmp/sock", "absolute", "three slashes"},
		{"unix:tmp/sock", "absolute", "three slashes"},
		{"fleet://h:7000", "fleet://h:7000 is a fleet", "fleet.Dial"},
		{"fleets://h:7000", "fleets://h:7000 is a fleet", "fleet.Dial"},
		{"etcd://u:secret@h:1,h:2/shop", "is a fleet", "etcd.Dial"},
		{"etcds://h:1", "is a fleet", "etcd.Dial"},
		{"redis://h:1,h:2", "list", "addr="},
		{"redis://h:1,redis://h:2", "list", "addr="},
		{"redis://:secret#1@h:6379", "malformed", "percent-encoded"},
		{"redis://:123/secret@h:6379", "cannot be used", "redis://"},
		{"fleet://u:secret@h:1", "fleet://u:xxxxx@h:1", "Redis Cluster"},
	} {
		c, err := Redis(t.Context(), tc.url)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, ErrURL) {
			t.Errorf("Redis(%q) = %v, want ErrURL", tc.url, err)
			continue
		}
		if !strings.Contains(err.Error(), tc.message) || !strings.Contains(millrace.Hint(err), tc.hint) {
			t.Errorf("Redis(%q) = %q, hint %q; want them to hold %q and %q", tc.url, err, millrace.Hint(err), tc.message, tc.hint)
		}
		if strings.Contains(err.Error()+millrace.Hint(err), "secret") {
			t.Errorf("Redis(%q) = %q shows the password", tc.url, err)
		}
	}
}

func TestOpenSaysWhatToTry(t *testing.T) {
	t.Parallel()
	locked := redistest.Start(t, redistest.Options{Args: []string{"--requirepass", "right"}})
	dead := redistest.Start(t, redistest.Options{TCP: true})
	dead.Kill()
	for name, tc := range map[string]struct{ url, hint string }{
		"nothing listens": {"redis://u:secret@" + dead.Addr(), "Nothing listens"},
		"no socket":       {"unix://" + filepath.Join(t.TempDir(), "none"), "no such socket"},
		"no password":     {locked.URL(), "password"},
		"wrong password":  {strings.Replace(locked.URL(), "unix://", "unix://:secret@", 1), "password"},
	} {
		c, err := Redis(t.Context(), tc.url)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, ErrConnect) || !strings.Contains(millrace.Hint(err), tc.hint) {
			t.Errorf("%s: Redis = %v (hint %q), want ErrConnect with a hint that holds %q", name, err, millrace.Hint(err), tc.hint)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: Redis = %q shows the password", name, err)
		}
	}
}

// TestContext: a server that accepts and says nothing holds a caller no longer than its
// context.
func TestContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Options{})
	s.Pause()
	t.Cleanup(s.Resume)
	reason := errors.New("the program ends")
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(10*time.Millisecond, func() { cancel(reason) })
	defer timer.Stop()
	if c, err := Redis(ctx, s.URL()+"?dial_timeout=10m"); !errors.Is(err, reason) {
		t.Errorf("Redis = %v, %v, want the cause of the context", c, err)
	}
	if c, err := Redis(ctx, s.URL()); !errors.Is(err, reason) {
		t.Errorf("Redis after the end of its context = %v, %v, want its cause", c, err)
	}
}

// TestChange: a program can set options that a URL cannot hold, and its settings stay.
func TestChange(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Options{Args: []string{"--requirepass", "secret"}})
	c, err := Redis(t.Context(), s.URL(), func(opt *rueidis.ClientOption) {
		if !opt.DisableCache || !opt.AlwaysPipelining {
			t.Errorf("options = %+v, want those of structures", opt)
		}
		opt.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Password: "secret"}, nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	roundTrip(t, c)
}

// TestWith: options without a URL get what structures want, and the same errors.
func TestWith(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Options{TCP: true})
	c, err := With(t.Context(), rueidis.ClientOption{InitAddress: []string{s.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	roundTrip(t, c)
	if reply, err := c.Do(t.Context(), c.B().ClientInfo().Build()).ToString(); err != nil || strings.Contains(reply, "rueidis") {
		t.Errorf("CLIENT INFO = %q, %v, want no name of the library", reply, err)
	}

	s.Kill()
	_, err = With(t.Context(), rueidis.ClientOption{InitAddress: []string{s.Addr()}, Password: "secret"})
	if !errors.Is(err, ErrConnect) || !strings.Contains(err.Error(), s.Addr()) || !strings.Contains(millrace.Hint(err), "Nothing listens") {
		t.Errorf("With = %v (hint %q), want ErrConnect with the address and a hint", err, millrace.Hint(err))
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("With = %q shows the password", err)
	}
}

// TestAdviceGoesByCode: a name in the text of an error is not taken for its cause.
func TestAdviceGoesByCode(t *testing.T) {
	t.Parallel()
	c := redistest.Shared(t).Client(t)
	for reply, want := range map[string]string{
		"NOAUTH HELLO must be called with the client already authenticated": "password",
		"WRONGPASS invalid username-password pair or user is disabled.":     "password",
		"ERR AUTH <password> called without any password configured":        "password",
		"NOPERM User AUTHOR has no permissions to run the 'hello' command":  ErrConnect.Hint,
		"LOADING Valkey is loading the dataset in memory":                   "is loading",
		"LOADINGDOCK is no code": ErrConnect.Hint,
	} {
		fails := c.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(reply).Build()
		if got := advice(c.Do(t.Context(), fails).Error(), rueidis.ClientOption{}); !strings.Contains(got, want) {
			t.Errorf("advice on %q = %q, want it to hold %q", reply, got, want)
		}
	}
}

// TestNoPasswordIsShown: whatever is in a URL, and however badly it is written, no text for
// people has the password.
func TestNoPasswordIsShown(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"hunter2", "@", ":", "/", "#", "?", ",", "%", "%40", " ", "[", "x", "&addr=", "\x00", "://", "redis://h:1"})
	scheme := rapid.SampledFrom([]string{"redis://", "rediss://", "unix://", "unix:", "fleet://", "etcd://", "http://", "redis:", "//", ""})
	user := rapid.SampledFrom([]string{"", "app"})
	rest := rapid.SampledFrom([]string{"", "h:1", "h:1/3", "h:x", "h:1,h:2", "/tmp/s", "h:1?db=x", "h:1?master_set=m", "h:1/a/b", "[::1"})
	rapid.Check(t, func(r *rapid.T) {
		password := strings.Join(rapid.SliceOfN(piece, 0, 3).Draw(r, "before"), "") + "hunter2" +
			strings.Join(rapid.SliceOfN(piece, 0, 3).Draw(r, "after"), "")
		url := scheme.Draw(r, "scheme") + user.Draw(r, "user") + ":" + password + "@" + rest.Draw(r, "rest")
		shown := address.Redacted(url)
		if _, err := Options(url); err != nil {
			shown += " " + err.Error() + " " + millrace.Hint(err)
		}
		if strings.Contains(shown, "hunter2") {
			r.Fatalf("%q is shown as %q", url, shown)
		}
	})
}

func BenchmarkOneCaller(b *testing.B) {
	s := redistest.Shared(b)
	for name, always := range map[string]bool{"always": true, "when shared": false} {
		b.Run(name, func(b *testing.B) {
			opt, err := Options(s.URL())
			if err != nil {
				b.Fatal(err)
			}
			opt.AlwaysPipelining = always
			c, err := rueidis.NewClient(opt)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			for b.Loop() {
				if err := c.Do(ctx, c.B().Incr().Key("k").Build()).Error(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
