package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestBesideGoRedis runs the program: go-redis writes in the handler, and both clients have a
// password and a database.
func TestBesideGoRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--requirepass", "secret"}})
	url := "redis://:secret@" + server.Addr() + "/3"
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, url) }()

	client, err := dial.Redis(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	queue, err := fairqueue.New(client, "visits", fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if _, err := queue.Write(t.Context(), fairqueue.Draft{Tenant: fmt.Sprint(i % 2)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	cache := redis.NewClient(options)
	defer cache.Close()
	redistest.Eventually(t, "each tenant has 25 visits", func() bool {
		visits, err := cache.MGet(t.Context(), "visits:0", "visits:1").Result()
		return err == nil && fmt.Sprint(visits) == "[25 25]"
	})
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run = %v, want the end of its context", err)
	}
}

// TestConnections: docs/GOREDIS.md says how many there are, however many goroutines call.
func TestConnections(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ multiplex, most int }{"by default": {0, 4 + 1}, "with one for all calls": {-1, 1 + 1}} {
		server := redistest.Start(t, redistest.Options{})
		opt, err := FromOptions(&redis.Options{Addr: server.Addr()})
		opt.PipelineMultiplex = test.multiplex
		client := queueWith(t, opt, err)
		queue, err := fairqueue.New(client, "busy", fairqueue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended, handled := make(chan error), make(chan bool)
		for range 3 {
			go func() {
				ended <- queue.Consume(ctx, fairqueue.ConsumeConfig{}, func(context.Context, fairqueue.Message) error {
					handled <- true
					return nil
				})
			}()
		}
		for range 100 {
			go func() {
				if _, err := queue.Write(t.Context(), fairqueue.Draft{Tenant: "a"}); err != nil {
					t.Error(err)
				}
			}()
		}
		for range 100 {
			<-handled
		}
		got, err := strconv.Atoi(server.Info("clients")["connected_clients"])
		if asks := 1; err != nil || got-asks > test.most {
			t.Errorf("%s: %d connections, %v, want up to %d", name, got-asks, err, test.most)
		}
		stop()
		for range 3 {
			<-ended
		}
	}
}

// queueWith writes and reads a message.
func queueWith(t *testing.T, opt rueidis.ClientOption, err error) rueidis.Client {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dial.With(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	queue, err := fairqueue.New(client, redistest.Name(t), fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queue.Write(t.Context(), fairqueue.Draft{Tenant: "a"}); err != nil {
		t.Fatal(err)
	}
	if messages, err := queue.Read(t.Context(), fairqueue.ReadConfig{}); len(messages) != 1 || err != nil {
		t.Fatalf("Read = %v, %v, want a message", messages, err)
	}
	return client
}

func TestSocketAndCredentials(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Args: []string{"--requirepass", "secret"}})
	for name, o := range map[string]*redis.Options{
		"password":   {Addr: server.Addr(), Password: "secret"},
		"function":   {Network: "unix", Addr: server.Addr(), CredentialsProvider: func() (string, string) { return "default", "secret" }},
		"with error": {Addr: server.Addr(), CredentialsProviderContext: func(context.Context) (string, string, error) { return "default", "secret", nil }},
		"dialer": {Addr: "anywhere", Password: "secret", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", server.Addr())
		}},
	} {
		opt, err := FromOptions(o)
		if c := redis.NewClient(o); c.Ping(t.Context()).Err() != nil {
			t.Errorf("%s: go-redis does not connect", name)
		} else {
			c.Close()
		}
		queueWith(t, opt, err)
	}
	opt, err := FromOptions(&redis.Options{Addr: server.Addr(), CredentialsProviderContext: func(context.Context) (string, string, error) {
		return "", "", errors.New("no token")
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial.With(t.Context(), opt); !errors.Is(err, dial.ErrConnect) || !strings.Contains(err.Error(), "no token") {
		t.Errorf("With = %v, want the error of the credentials", err)
	}
}

// TestTLS: the server asks clients for a certificate, and both have one.
func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	authority := redistest.Certify(t, folder, "authority", nil)
	redistest.Certify(t, folder, "server", authority, "localhost")
	redistest.Certify(t, folder, "client", authority)
	file := func(name string) string { return filepath.Join(folder, name) }
	probe, err := net.Listen("tcp", "127.0.0.1:0") // for a port that is free
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(probe.Addr().(*net.TCPAddr).Port)
	probe.Close()
	server, err := redisproc.Start(t.Context(), redisproc.Config{Binary: redistest.Binary(t), Args: []string{
		"--tls-port", port, "--tls-auth-clients", "yes", "--tls-ca-cert-file", file("authority.pem"),
		"--tls-cert-file", file("server.pem"), "--tls-key-file", file("server.key"),
	}})
	if redistest.WithoutTLS(err) {
		t.Skip("this server was built without TLS")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	certificate, err := tls.LoadX509KeyPair(file("client.pem"), file("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := os.ReadFile(file("authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted)
	o := &redis.Options{Addr: "localhost:" + port, TLSConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}}
	cache := redis.NewClient(o)
	defer cache.Close()
	if err := cache.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	opt, err := FromOptions(o)
	queueWith(t, opt, err)

	// dial.Redis takes it as a change.
	client, err := dial.Redis(t.Context(), "rediss://localhost:"+port, func(opt *rueidis.ClientOption) {
		opt.TLSConfig.RootCAs, opt.TLSConfig.Certificates = pool, []tls.Certificate{certificate}
	})
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if _, err := dial.Redis(t.Context(), "rediss://localhost:"+port); !errors.Is(err, dial.ErrConnect) {
		t.Errorf("without a certificate Redis = %v, want ErrConnect", err)
	}
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.Sentinels(t, 1)
	parsed := rueidis.MustParseURL(s.URL())
	o := &redis.UniversalOptions{Addrs: parsed.InitAddress, MasterName: parsed.Sentinel.MasterSet}
	opt, err := FromUniversal(o)
	if client := queueWith(t, opt, err); client.Mode() != rueidis.ClientModeSentinel {
		t.Errorf("Mode = %s, want Sentinel", client.Mode())
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	o := &redis.UniversalOptions{Addrs: rueidis.MustParseURL(redistest.Cluster(t, 3, 0).URL()).InitAddress}
	opt, err := FromUniversal(o)
	if client := queueWith(t, opt, err); client.Mode() != rueidis.ClientModeCluster {
		t.Errorf("Mode = %s, want Cluster", client.Mode())
	}
}

// TestFields: each field goes to its counterpart.
func TestFields(t *testing.T) {
	t.Parallel()
	config := &tls.Config{ServerName: "redis.internal"}
	for name, from := range map[string]func() (rueidis.ClientOption, error){
		"one": func() (rueidis.ClientOption, error) {
			return FromOptions(&redis.Options{
				Addr: "h:1", ClientName: "shop", Username: "u", Password: "p", DB: 2, DialTimeout: time.Second, TLSConfig: config,
			})
		},
		"several": func() (rueidis.ClientOption, error) {
			return FromUniversal(&redis.UniversalOptions{
				Addrs: []string{"h:1"}, IsClusterMode: true,
				ClientName: "shop", Username: "u", Password: "p", DialTimeout: time.Second, TLSConfig: config,
			})
		},
		"sentinels": func() (rueidis.ClientOption, error) {
			return FromUniversal(&redis.UniversalOptions{
				Addrs: []string{"h:1"}, MasterName: "m", SentinelUsername: "su", SentinelPassword: "sp", RouteRandomly: true,
				ClientName: "shop", Username: "u", Password: "p", DB: 2, DialTimeout: time.Second, TLSConfig: config,
			})
		},
	} {
		opt, err := from()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := fmt.Sprint(opt.InitAddress, opt.ClientName, opt.Username, opt.Password, opt.Dialer.Timeout, opt.TLSConfig == config)
		if want := fmt.Sprint([]string{"h:1"}, "shop", "u", "p", time.Second, true); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if name != "several" && opt.SelectDB != 2 {
			t.Errorf("%s: database %d, want 2", name, opt.SelectDB)
		}
		if s := opt.Sentinel; name == "sentinels" && (s.MasterSet != "m" || s.Username != "su" || s.Password != "sp" || s.TLSConfig != config || s.Dialer.Timeout != time.Second) {
			t.Errorf("sentinel options = %+v", s)
		}
	}
}

// TestRefused: an option that would be lost is an error, not a surprise.
func TestRefused(t *testing.T) {
	t.Parallel()
	onConnect := func(context.Context, *redis.Conn) error { return nil }
	for field, from := range map[string]func() (rueidis.ClientOption, error){
		"OnConnect":   func() (rueidis.ClientOption, error) { return FromOptions(&redis.Options{OnConnect: onConnect}) },
		"ReplicaOnly": func() (rueidis.ClientOption, error) { return FromFailover(&redis.FailoverOptions{ReplicaOnly: true}) },
		"NewClient": func() (rueidis.ClientOption, error) {
			return FromCluster(&redis.ClusterOptions{NewClient: redis.NewClient})
		},
		"ClusterSlots": func() (rueidis.ClientOption, error) {
			return FromCluster(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil }})
		},
	} {
		if _, err := from(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error = %v, want one that names it", field, err)
		}
	}
}
