package connect

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
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
	c, err := Open(url)
	if err != nil {
		t.Fatalf("Open(%q): %v", url, err)
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

	_, err := Open(strings.Replace(s.URL(), "master_set=", "master_set=other", 1))
	if !errors.Is(err, ErrConnect) || !strings.Contains(millrace.Hint(err), "master_set") {
		t.Errorf("Open with an unknown master_set = %v (hint %q), want ErrConnect with a hint at master_set", err, millrace.Hint(err))
	}
}

// A call with both a deadline and a cancel is what structures make all day.
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
		c, err := Open(tc.url)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, ErrURL) {
			t.Errorf("Open(%q) = %v, want ErrURL", tc.url, err)
			continue
		}
		if !strings.Contains(err.Error(), tc.message) || !strings.Contains(millrace.Hint(err), tc.hint) {
			t.Errorf("Open(%q) = %q, hint %q; want them to hold %q and %q", tc.url, err, millrace.Hint(err), tc.message, tc.hint)
		}
		if strings.Contains(err.Error()+millrace.Hint(err), "secret") {
			t.Errorf("Open(%q) = %q shows the password", tc.url, err)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	options, shown, err := Options("redis://u:a,b@h:1,rediss://h:2/3,unix:///tmp/s")
	if err != nil || len(options) != 3 {
		t.Fatalf("Options = %d, %v, want three", len(options), err)
	}
	if got, want := options[0].Password, "a,b"; got != want {
		t.Errorf("the first password is %q, want %q", got, want)
	}
	if options[1].TLSConfig == nil || options[1].SelectDB != 3 {
		t.Errorf("the second = %+v, want TLS and database 3", options[1])
	}
	if got, want := strings.Join(shown, " "), "redis://u:xxxxx@h:1 rediss://h:2/3 unix:///tmp/s"; got != want {
		t.Errorf("shown as %q, want %q", got, want)
	}
	for _, wrong := range []string{"", "redis://h:1,", "redis://h:1,h:2", "redis://h:1,fleet://h:2"} {
		if _, _, err := Options(wrong); !errors.Is(err, ErrURL) {
			t.Errorf("Options(%q) = %v, want ErrURL", wrong, err)
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
		c, err := Open(tc.url)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, ErrConnect) || !strings.Contains(millrace.Hint(err), tc.hint) {
			t.Errorf("%s: Open = %v (hint %q), want ErrConnect with a hint that holds %q", name, err, millrace.Hint(err), tc.hint)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: Open = %q shows the password", name, err)
		}
	}
}

func BenchmarkOneCaller(b *testing.B) {
	s := redistest.Shared(b)
	for name, always := range map[string]bool{"always": true, "when shared": false} {
		b.Run(name, func(b *testing.B) {
			opt, _, err := parse(s.URL())
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
