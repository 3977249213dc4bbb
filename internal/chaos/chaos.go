// Package chaos plays scenes. A scene puts load on a structure, causes accidents, and then
// checks the structure against a ledger that the scene keeps itself. The command
// "millrace demo" plays scenes for people, and tests play them with a protection taken
// away, to see that a check fails.
//
//	Run ──▶ server ──▶ scene: load, accidents ──▶ drain ──▶ checks ──▶ delete ──▶ Report
//	                     │  ▲
//	               task  ▼  │ reports, one line of JSON each
//	                 worker processes: the same binary, killed with SIGKILL
//
// # Workers
//
// A worker is the program's own binary, started with a hidden first argument. So a program
// that plays scenes calls [Child] before anything else:
//
//	if code, ok := chaos.Child(ctx, os.Args[1:], scenes); ok {
//		os.Exit(code)
//	}
//
// A worker reads its task, with the address of the server, from the first line of its
// standard input, because other users can read arguments and the address may hold a
// password. It ends when its standard input ends. On Linux the kernel kills it together
// with its parent.
//
// # Servers
//
// Without [Config.Redis] scenes play on a private server that ends with the run, or on
// miniredis where no redis-server is installed. With Config.Redis they work under a random
// name and delete their keys. They never change settings of that server and never fill its
// memory: scenes that kill or fill servers start their own.
package chaos

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/screen"
)

// Scene is one story: load, accident, checks. Its texts are sentences for people.
type Scene struct {
	Name     string
	Shows    string // the promise, without a full stop
	Load     string // the work of the scene
	Accident string // the faults of the scene
	Duration time.Duration

	// NeedsServer says why the scene cannot play without a redis-server binary. It is
	// empty for a scene that plays on miniredis, too.
	NeedsServer string

	// Play makes the load, causes the accident, and adds figures and checks to p. It ends
	// with package must where the scene cannot be played.
	Play func(ctx context.Context, p *Play)

	// Work runs in a worker process until ctx ends. It is nil without workers.
	Work func(ctx context.Context, w *Worker) error
}

// Config chooses the scenes, and their server. The zero value plays nothing.
type Config struct {
	Scenes []Scene

	// Redis is the address of the server, in the syntax of the --redis flag. Defaults to a
	// private server.
	Redis string

	// Results gets the results as text, scene by scene. Defaults to io.Discard.
	Results io.Writer

	// Progress gets lines about the run. Defaults to io.Discard. Live means that it is a
	// terminal, where progress is redrawn in place.
	Progress io.Writer
	Live     bool

	// Duration replaces the durations of all scenes. Defaults to each scene's own.
	Duration time.Duration

	// Sabotage names a protection that the scenes leave out, so that tests see their checks
	// fail. Defaults to none.
	Sabotage string

	// Command starts a worker; the scene's name is appended. Defaults to this binary.
	Command []string

	// Find returns the path of the server binary. Defaults to [redisproc.Find].
	Find func() (string, error)
}

func (cfg Config) withDefaults() (Config, error) {
	cfg.Results, cfg.Progress = cmp.Or(cfg.Results, io.Discard), cmp.Or(cfg.Progress, io.Discard)
	if cfg.Find == nil {
		cfg.Find = redisproc.Find
	}
	if cfg.Command == nil {
		self, err := os.Executable()
		if err != nil {
			return cfg, fmt.Errorf("cannot find this binary, which worker processes run: %w", err)
		}
		cfg.Command = []string{self, childArgument}
	}
	return cfg, nil
}

// Run plays the scenes and reports their results. A check that fails makes the report not
// OK and is no error, and neither is a scene that is skipped. An error means that the
// scenes could not be played to their end; the report has those before.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return report, err
	}
	srv, err := cfg.open(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	shown := screen.New(cfg.Progress, cfg.Live)
	report = Report{OK: true, Server: srv.label, Scenes: []Result{}}
	missing := missing(cfg.Scenes, srv.binary != "")
	shown.Say("%s", strings.TrimSuffix(wrap("", srv.notice+" "+missing), "\n"))

	for i, s := range cfg.Scenes {
		p := &Play{
			Result: Result{Name: s.Name, Shows: s.Shows},
			Client: srv.client, URL: srv.url, Binary: srv.binary, Small: srv.small,
			Name: "demo-" + strings.ToLower(rand.Text()[:10]), Duration: cmp.Or(cfg.Duration, s.Duration), Sabotage: cfg.Sabotage,
			screen: shown, command: append(slices.Clip(cfg.Command), s.Name),
		}
		fmt.Fprintf(cfg.Results, "\n%s", s.heading(i+1, len(cfg.Scenes)))
		if err := p.run(ctx, s); err != nil {
			report.OK = false
			return report, fmt.Errorf("scene %s: %w", s.Name, err)
		}
		report.OK = report.OK && p.OK
		report.Scenes = append(report.Scenes, p.Result)
		fmt.Fprint(cfg.Results, p.text())
	}
	_, err = fmt.Fprintf(cfg.Results, "\n%s", wrap("", report.verdict()+" "+missing))
	return report, err
}

// server is the Redis that the scenes share.
type server struct {
	client rueidis.Client
	url    string
	binary string // of redis-server; empty without one
	small  bool   // it is miniredis
	label  string
	notice string // for people, before the first scene
	close  func() error
}

// open connects to the given server, or starts a private one.
func (cfg *Config) open(ctx context.Context) (*server, error) {
	binary, err := cfg.Find()
	if err != nil && !errors.Is(err, redisproc.ErrNotFound) {
		return nil, err
	}
	if cfg.Redis != "" {
		client, err := dial.Redis(ctx, cfg.Redis)
		if err != nil {
			return nil, err
		}
		label := withoutSecrets(cfg.Redis)
		return &server{
			client: client, url: cfg.Redis, binary: binary, label: label,
			notice: "The scenes play on " + label + " and delete what they wrote.",
			close:  func() error { client.Close(); return nil },
		}, nil
	}
	own, err := connect.Embedded(ctx, connect.EmbeddedConfig{Find: func() (string, error) { return binary, err }})
	if err != nil {
		return nil, err
	}
	s := &server{client: own.Client, url: own.URL, binary: binary, small: !own.Real, close: own.Close}
	if own.Real {
		s.label = own.Kind + " (embedded, unix socket)"
		s.notice = "Started a private " + own.Kind + ". Its data are gone at the end. To use your own server: --redis URL."
	} else {
		s.label = own.Kind + " (embedded, an imitation in this process)"
		s.notice = "No redis-server is installed. The scenes play on " + own.Kind +
			", an imitation inside this process: slow, so that they are small."
	}
	return s, nil
}

// withoutSecrets returns an address without user, password and parameters.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the given server"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}
