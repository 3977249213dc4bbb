package scatter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// startServers starts n servers of the test's own.
func startServers(t *testing.T, n int) []*redistest.Server {
	t.Helper()
	servers := make([]*redistest.Server, n)
	for i := range servers {
		servers[i] = redistest.Start(t, redistest.Options{})
	}
	return servers
}

// newScatter returns a group of the servers, which are called s0, s1 and so on.
func newScatter(t *testing.T, servers []*redistest.Server, cfg Config) *Scatter {
	t.Helper()
	list := make([]Server, len(servers))
	for i, one := range servers {
		list[i] = Server{Name: fmt.Sprint("s", i), Client: one.Client(t)}
	}
	return scatterOver(t, list, cfg)
}

// throughProxies returns a group of the servers with a proxy before each of them.
func throughProxies(t *testing.T, servers []*redistest.Server, cfg Config) (*Scatter, []*redistest.Proxy) {
	t.Helper()
	list, proxies := make([]Server, len(servers)), make([]*redistest.Proxy, len(servers))
	for i, one := range servers {
		proxies[i] = redistest.NewProxy(t, one.Addr())
		list[i] = Server{Name: fmt.Sprint("s", i), Client: proxies[i].Client(t)}
	}
	return scatterOver(t, list, cfg), proxies
}

// scatterOver returns a group that is closed when the test ends. It waits long for a
// busy machine, unless the test says otherwise.
func scatterOver(t *testing.T, list []Server, cfg Config) *Scatter {
	t.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	sc, err := New(list, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sc.Close)
	return sc
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error = %v, want %v", err, want)
	}
}

// do runs a command that the package itself has no use for.
func do(client rueidis.Client, args ...string) rueidis.RedisResult {
	return client.Do(context.Background(), client.B().Arbitrary(args...).Build())
}

func must(t *testing.T, client rueidis.Client, args ...string) {
	t.Helper()
	if err := do(client, args...).Error(); err != nil {
		t.Fatal(err)
	}
}

// text runs a command that answers with a text, and returns "" for none.
func text(t *testing.T, client rueidis.Client, args ...string) string {
	t.Helper()
	s, err := do(client, args...).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	return s
}

// words runs a command that answers with a list of texts.
func words(t *testing.T, client rueidis.Client, args ...string) []string {
	t.Helper()
	list, err := do(client, args...).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// integer runs a command that answers with a number.
func integer(t *testing.T, client rueidis.Client, args ...string) int64 {
	t.Helper()
	n, err := do(client, args...).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	return n
}

// optionOf returns how to connect to a server.
func optionOf(server *redistest.Server) rueidis.ClientOption {
	return rueidis.MustParseURL(server.URL())
}

// nowhere returns servers that cannot be reached.
func nowhere(n int) []Server {
	list := make([]Server, n)
	for i := range list {
		list[i] = Server{Name: fmt.Sprint("s", i), Option: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}}
	}
	return list
}

// contents returns the contents of all keys of a server, and whether they expire.
func contents(t *testing.T, client rueidis.Client) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, key := range words(t, client, "KEYS", "*") {
		read := map[string][]string{
			"string": {"GET", key}, "list": {"LRANGE", key, "0", "-1"}, "set": {"SORT", key, "ALPHA"},
			"zset": {"ZRANGE", key, "0", "-1", "WITHSCORES"}, "hash": {"HGETALL", key},
		}[text(t, client, "TYPE", key)]
		value, err := do(client, read...).ToAny()
		if err != nil {
			t.Fatal(err)
		}
		all[key] = fmt.Sprint(read[0], " ", value)
		if integer(t, client, "PTTL", key) >= 0 {
			all[key] += ", and expires"
		}
	}
	return all
}

// age makes a server's memory of flushes as much older as it takes to be forgotten.
func age(t *testing.T, sc *Scatter, server *redistest.Server) {
	t.Helper()
	for _, key := range words(t, server.Client(t), "KEYS", sc.base+":lanes:*") {
		must(t, server.Client(t), "HINCRBY", key, "", "-2")
	}
}

// connected reports whether anything was sent to a server.
func connected(sc *Scatter, i int) bool { return sc.servers[i].link.Load() != nil }
