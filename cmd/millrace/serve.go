package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/fleet/open"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/server"
	"github.com/millrace/millrace/tracker"
)

type serveCommand struct {
	Listen       string `default:"127.0.0.1:8420" placeholder:"HOST:PORT" help:"Where to listen. What is no loopback address needs credentials. Defaults to ${default}."`
	AuthFile     string `placeholder:"FILE" help:"Who may ask, a line for each: bearer TOKEN, or basic USER:PASSWORD. Defaults to the lines of $$MILLRACE_AUTH."`
	AllowActions bool   `help:"Let the pages pause, resize, redrive, purge and delete. Without it they are to look at."`
	TLSCert      string `name:"tls-cert" placeholder:"FILE" help:"The certificate, with its chain, in PEM. With --tls-key the service speaks HTTPS."`
	TLSKey       string `name:"tls-key" placeholder:"FILE" help:"The certificate's key, in PEM."`
	Prefix       string `placeholder:"/PATH" help:"The path below which all of it lies, for a proxy that passes paths on as they are."`
	Counters     string `placeholder:"URL,URL" help:"The servers over which counters are scattered. Defaults to the Redis at hand, or the fleet's partitions."`
	Trackers     string `placeholder:"FILE" help:"Trackers to keep in step with tables of PostgreSQL: a JSON list of name, table, id and where. The database is that of $$MILLRACE_DATABASE_URL, or of an entry."`

	tracked []servedTracker // the entries of that file
}

func (*serveCommand) Help() string {
	return `An HTTP API for any language at /v1/ (described at /openapi.json), pages that show what is going on at /, and /metrics, /healthz and /readyz.

Without a Redis it starts a private one, which ends with it: for a first try, since nothing survives. A second signal ends it at once; the first lets requests finish.

Secrets are given in files and in the environment, where other users of the machine do not see them. The service sends traces over OTLP (HTTP) if OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT says where to.

With --trackers the service reads tables of PostgreSQL, a page at a time, so that it answers which identifiers have work queued. Each entry has name, table, id (the column of the identifiers, with an index) and where (the condition of a row with work queued), and may have indexed (there is an index on id with that condition), integer_id (id has whole numbers) and database.

Examples:

    millrace serve
    millrace serve --redis redis://127.0.0.1:6379 --allow-actions
    MILLRACE_AUTH="bearer $(openssl rand -hex 16)" millrace serve --listen 0.0.0.0:8420
    millrace serve --listen :8420 --auth-file /etc/millrace/auth --tls-cert cert.pem --tls-key key.pem
    MILLRACE_DATABASE_URL=postgres://reader@db/archive millrace serve --trackers /etc/millrace/trackers.json`
}

// servedDoc says where the service is.
type servedDoc struct {
	URL   string `json:"url"`
	Redis string `json:"redis"` // "given", or the kind of the embedded one
}

func (c *serveCommand) Run(ctx context.Context, a *app) error {
	logger := a.logger()
	auth, err := c.auth(a)
	if err != nil {
		return err
	}
	certificate, err := c.certificate()
	if err != nil {
		return err
	}
	if err := c.readTrackers(a); err != nil {
		return err
	}
	traces, err := openTraces(ctx, a.env)
	if err != nil {
		return err
	}
	defer traces.close(logger)

	redis, err := c.open(ctx, a, logger)
	if err != nil {
		return err
	}
	defer redis.close()

	trackers, closeDatabases, err := c.trackers(ctx, a, redis.client, tracker.Config{Logger: logger, Hooks: traces.hooks()})
	if err != nil {
		return err
	}
	defer closeDatabases()

	cfg := server.Config{
		Client: redis.client, Fleet: redis.fleet, Counters: redis.counters,
		Trackers: trackers, Auth: auth, Prefix: c.Prefix, Actions: c.AllowActions, Logger: logger,
		Hooks: traces.hooks(), Wrap: traces.wrap,
	}
	if auth == nil {
		cfg.Hosts = []string{"localhost", "127.0.0.1", "::1", c.host()}
	}
	service, err := server.New(cfg)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return errListen.Errorf("cannot listen on %s", c.Listen).Wrap(err)
	}
	doc := servedDoc{URL: c.url(listener.Addr(), certificate != nil), Redis: redis.kind}
	if certificate != nil {
		listener = tls.NewListener(listener, certificate)
	}
	err = a.print(doc, says("Millrace serves at %s", doc.URL))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return service.Serve(ctx, listener)
}

var errListen = &millrace.Error{
	Code: "cannot_listen",
	Hint: "Another program may be there, perhaps another millrace serve: end it, or choose another address with --listen.",
}

// host returns the host of --listen.
func (c *serveCommand) host() string {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return ""
	}
	return host
}

// loopback reports whether only this machine can reach the service.
func (c *serveCommand) loopback() bool {
	host := c.host()
	return host == "localhost" || net.ParseIP(host) != nil && net.ParseIP(host).IsLoopback()
}

// url returns where people find the service.
func (c *serveCommand) url(addr net.Addr, secure bool) string {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	_, port, _ := net.SplitHostPort(addr.String()) // it is one of ours
	host := cmp.Or(c.host(), "localhost")
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + c.Prefix + "/"
}

// auth returns the accepted tokens, and nil when every process on this machine has access.
func (c *serveCommand) auth(a *app) (*server.Auth, error) {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return nil, errUsage.Errorf("--listen %s is not HOST:PORT", c.Listen)
	}
	text, source := a.env("MILLRACE_AUTH"), "MILLRACE_AUTH"
	if c.AuthFile != "" {
		b, err := os.ReadFile(c.AuthFile)
		if err != nil {
			return nil, badFile("--auth-file", err)
		}
		text, source = string(b), c.AuthFile
	}
	if c.AuthFile == "" && text == "" {
		if c.loopback() {
			return nil, nil //nolint:nilnil // no token is needed
		}
		return nil, errUsage.Errorf("everybody who can connect to %s could read and change everything", c.Listen).WithHint(`Set MILLRACE_AUTH to "bearer TOKEN" or "basic USER:PASSWORD", or name a file of such lines with --auth-file; or listen on 127.0.0.1.`)
	}
	auth, err := server.ParseAuth(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return auth, nil
}

// badFile says which flag names a file that cannot be read.
func badFile(flag string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return errUsage.Errorf("%s: %s", flag, err)
}

// certificate returns how to speak TLS, and nil when that was not asked for.
func (c *serveCommand) certificate() (*tls.Config, error) {
	switch {
	case c.TLSCert == "" && c.TLSKey == "":
		return nil, nil //nolint:nilnil // plain HTTP was asked for
	case c.TLSCert == "" || c.TLSKey == "":
		return nil, errUsage.Errorf("--tls-cert and --tls-key belong together")
	}
	pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, badFile("--tls-cert, --tls-key", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"h2", "http/1.1"},
	}, nil
}

// served is the Redis that a service works on.
type served struct {
	client   rueidis.Client
	fleet    *fleet.Fleet     // nil for none
	counters []scatter.Server // empty for none of their own
	kind     string           // "given", or the kind that was started
	ends     []func()
}

// close gives all of it up, the last opened first.
func (s *served) close() {
	for len(s.ends) > 0 {
		last := len(s.ends) - 1
		s.ends[last]()
		s.ends = s.ends[:last]
	}
}

// open opens the Redis that was named, or starts one, and says so loudly.
func (c *serveCommand) open(ctx context.Context, a *app, logger *slog.Logger) (s *served, err error) {
	s = &served{kind: "given"}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	switch {
	case a.url() == "" && a.chosen.err != nil:
		return s, a.chosen.err
	case a.url() == "":
		embedded, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
		if err != nil {
			return s, err
		}
		s.client, s.kind = embedded.Client, embedded.Kind
		s.ends = append(s.ends, func() { _ = embedded.Close() }) // it was for a try
		logger.WarnContext(ctx, "no Redis was named, so a private one was started: NOTHING SURVIVES the end of this service",
			"kind", embedded.Kind, "hint", "name one with --redis or MILLRACE_REDIS_URL")
	case open.Is(a.url()):
		f, err := a.openFleet(ctx)
		if err != nil {
			return s, err
		}
		s.client, s.fleet = f.Client(), f
		s.ends = append(s.ends, f.Close)
	default:
		client, err := a.open(ctx)
		if err != nil {
			return s, err
		}
		s.client = client
		s.ends = append(s.ends, client.Close)
	}
	if c.Counters == "" {
		return s, nil
	}
	s.counters, err = counterServers(c.Counters)
	return s, err
}
