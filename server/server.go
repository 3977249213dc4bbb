package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/metrics"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/server/internal/api"
	"github.com/millrace/millrace/server/internal/dashboard"
	"github.com/millrace/millrace/steal"
	"github.com/millrace/millrace/upkeep"
)

// Config is what a service works on and whom it serves.
type Config struct {
	// Client is the way to Redis: one server, Sentinel, a cluster, or a fleet's. It
	// stays the caller's, and must be there.
	Client rueidis.Client

	// Fleet is the fleet whose client that is, for the page about it. Defaults to
	// none.
	Fleet *fleet.Fleet

	// Counters are the servers over which counters are scattered. Defaults to the
	// fleet's partitions, or else to Client alone.
	Counters []scatter.Server

	// Auth is who may ask; all others have 401, save for /healthz and /readyz.
	// Defaults to nobody being asked, which is for a loopback address, and for
	// programs that put this handler behind their own.
	Auth *Auth

	// Hosts are the names, without ports, under which requests may ask for the
	// service. Without credentials it is what keeps pages of strangers out, whose
	// names can be made to lead to any address. Defaults to any name.
	Hosts []string

	// Prefix is the path below which all of it lies, such as /millrace. Defaults to
	// none.
	Prefix string

	// Actions lets the pages change things. The API can do so anyway. Defaults to
	// off: the pages are to look at.
	Actions bool

	// Registry is what /metrics shows, and where the service's own metrics go: one
	// service a registry. Defaults to a new one.
	Registry *prometheus.Registry

	// Logger is told of trouble, and of what was done by hand. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Hooks watch the calls that requests of the API make, besides the metrics.
	// Defaults to none.
	Hooks []millrace.Hook

	// Wrap is put around what answers those who may ask, such as one that makes a
	// span of each request. Defaults to nothing.
	Wrap func(http.Handler) http.Handler
}

// Server is the service: one http.Handler. New makes it.
type Server struct {
	cfg       Config
	handler   http.Handler
	api       *api.API
	dashboard *dashboard.Dashboard
	survey    *survey.Survey
	recruiter *steal.Recruiter
	counters  *scatter.Scatter
	draining  atomic.Bool
}

// New returns the service. It asks nothing of Redis. Errors are derived from
// [millrace.ErrBadArgument].
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Client == nil:
		return nil, millrace.ErrBadArgument.Errorf("the service needs a Client")
	case cfg.Prefix != "" && (!strings.HasPrefix(cfg.Prefix, "/") || strings.HasSuffix(cfg.Prefix, "/")):
		return nil, millrace.ErrBadArgument.Errorf("the prefix %q is not one like /millrace", cfg.Prefix)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	s := &Server{cfg: cfg}
	if err := s.furnish(); err != nil {
		s.close()
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
}

// furnish makes the rooms of the service.
func (s *Server) furnish() error {
	cfg := s.cfg
	hook, err := metrics.New(cfg.Registry)
	if err != nil {
		return err
	}
	hooks := append([]millrace.Hook{hook}, cfg.Hooks...)
	counters := cfg.Counters
	switch {
	case len(counters) > 0:
	case cfg.Fleet != nil:
		counters = scatter.Clients(cfg.Fleet.Partitions()...)
	default:
		counters = scatter.Clients(cfg.Client)
	}
	if s.counters, err = scatter.New(counters, scatter.Config{Hooks: hooks}); err != nil {
		return err
	}
	s.recruiter = steal.New(steal.Config{Logger: cfg.Logger, Hooks: hooks})
	if err := upkeep.Install(s.recruiter, cfg.Client); err != nil {
		return err
	}
	if s.survey, err = survey.New(survey.Config{Client: cfg.Client, Fleet: cfg.Fleet, Logger: cfg.Logger}); err != nil {
		return err
	}
	err = errors.Join(cfg.Registry.Register(survey.Collector(s.survey)), cfg.Registry.Register(metrics.RecruiterCollector(s.recruiter)))
	if err != nil {
		return err
	}
	if s.api, err = api.New(api.Config{
		Client: cfg.Client, Counters: s.counters, Prefix: cfg.Prefix, Enlister: s.recruiter, Hooks: hooks, Logger: cfg.Logger,
	}); err != nil {
		return err
	}
	s.dashboard, err = dashboard.New(dashboard.Config{
		Client: cfg.Client, Fleet: cfg.Fleet, Counters: s.counters, Survey: s.survey,
		Prefix: cfg.Prefix, Actions: cfg.Actions, Principal: api.Principal, Logger: cfg.Logger,
	})
	return err
}

// routes puts the rooms under their paths. It is no ServeMux, which would redirect a
// path with dots or two slashes to what it comes to: here that is refused, or no page.
func (s *Server) routes() http.Handler {
	metrics := promhttp.HandlerFor(s.cfg.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	guarded := steal.Middleware(s.recruiter)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/v1/"), path == "/openapi.json":
			s.api.ServeHTTP(w, r)
		case path == "/metrics":
			metrics.ServeHTTP(w, r)
		default:
			s.dashboard.ServeHTTP(w, r)
		}
	}))
	if s.cfg.Wrap != nil {
		guarded = s.cfg.Wrap(guarded)
	}
	guarded = s.guard(guarded)
	return below(s.cfg.Prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			s.healthz(w, r)
		case "/readyz":
			s.readyz(w, r)
		default:
			guarded.ServeHTTP(w, r)
		}
	}))
}

// below has a handler see what comes behind a prefix of paths, and nothing else.
func below(prefix string, handler http.Handler) http.Handler {
	if prefix == "" {
		return handler
	}
	stripped := http.StripPrefix(prefix, handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == prefix:
			http.Redirect(w, r, prefix+"/", http.StatusMovedPermanently)
		case strings.HasPrefix(r.URL.Path, prefix+"/"):
			stripped.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Run does what goes on between requests, until ctx ends, and returns its cause: it
// looks at the structures for the pages and for metrics, keeps up what is due when
// nobody has a moment to spare, and adds what was done to the totals of all
// processes. One call a service.
func (s *Server) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{
		s.survey.Run,
		s.recruiter.Run,
		func(ctx context.Context) error {
			return upkeep.Publish(ctx, s.recruiter, s.cfg.Client, upkeep.PublishConfig{Logger: s.cfg.Logger})
		},
	} {
		all.Go(func() { _ = run(ctx) }) // each ends with ctx, and with its cause
	}
	all.Wait()
	s.close()
	return context.Cause(ctx)
}

// Drain has requests that wait end with what they have, and says at /readyz that
// no more should be sent. Others go on. It cannot be taken back.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.api.Drain()
	s.dashboard.Drain()
}

// close gives up what New made.
func (s *Server) close() {
	if s.counters != nil {
		s.counters.Close()
	}
}
