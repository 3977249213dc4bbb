package server

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/observe/metrics"
	"github.com/millrace/millrace/observe/metrics/stealmetrics"
	"github.com/millrace/millrace/observe/metrics/trackermetrics"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/server/internal/access"
	"github.com/millrace/millrace/server/internal/api"
	"github.com/millrace/millrace/server/internal/dashboard"
	"github.com/millrace/millrace/steal"
	"github.com/millrace/millrace/tracker"
)

// Config configures a service. It needs a Client.
type Config struct {
	// Client is the connection to Redis: one server, Sentinel, a cluster, or a fleet's.
	// The caller closes it.
	Client rueidis.Client

	// Fleet is the fleet of that client, for its page. Defaults to none.
	Fleet *fleet.Fleet

	// Counters are the servers of scattered counters. Defaults to the fleet's
	// partitions, or to Client. A server whose maxmemory-policy is not noeviction is
	// refused; no setting accepts it.
	Counters []scatter.Server

	// Trackers have a Source, and the service keeps them in step with it: it fills them when it starts,
	// and runs their jobs each second. Any tracker is answered over HTTP. Defaults to none.
	Trackers []*tracker.Tracker

	// Auth is the list of clients that have access; others get 401, except for /healthz
	// and /readyz. Defaults to access for every client, which is for a loopback address,
	// and for programs with their own authentication.
	Auth *Auth

	// Hosts are the host names, without ports, that the service answers to. A service
	// without Auth needs them against DNS rebinding. Defaults to any name.
	Hosts []string

	// Prefix is the path of the service, such as /millrace. Defaults to none.
	Prefix string

	// Actions lets people change things on the pages, as the API always does. Defaults
	// to false: pages are read-only.
	Actions bool

	// Registry has the metrics that /metrics exports; the service registers its own there.
	// Use one registry for each service. Defaults to a new one.
	Registry *prometheus.Registry

	// Logger logs trouble, and actions on the pages. Defaults to slog.Default().
	Logger *slog.Logger

	// Hooks see the calls that the API makes, as the metrics do. Defaults to none.
	Hooks []millrace.Hook

	// Wrap wraps the handler behind the access checks, for example to make a span of
	// each request. Defaults to nothing.
	Wrap func(http.Handler) http.Handler
}

// Server is the service: one http.Handler.
type Server struct {
	cfg       Config
	handler   http.Handler
	api       *api.API
	dashboard *dashboard.Dashboard
	survey    *survey.Survey
	recruiter *steal.Recruiter
	keeper    *steal.Recruiter // of Config.Trackers
	counters  *scatter.Scatter
	bodies    bodies
	draining  atomic.Bool
}

// New returns the service without asking Redis anything. Errors are derived from
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
	if err := s.build(); err != nil {
		s.close()
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
}

// jobRate is the chance of the service's own upkeep at each request.
const jobRate = 0.001

// keepInterval is how often the jobs of trackers run, and how long a slice may take.
const keepInterval = time.Second

// build makes the parts of the service.
func (s *Server) build() error {
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
	err = errors.Join(cfg.Registry.Register(survey.Collector(s.survey)), cfg.Registry.Register(stealmetrics.Collector(s.recruiter)))
	if err != nil {
		return err
	}
	s.keeper = steal.New(steal.Config{Floor: keepInterval, Budget: keepInterval, Logger: cfg.Logger, Hooks: hooks})
	for _, t := range cfg.Trackers {
		for _, job := range t.Jobs() {
			if err := s.keeper.Install(job, 0); err != nil {
				return err
			}
		}
		if err := cfg.Registry.Register(trackermetrics.Collector(t)); err != nil {
			return err
		}
	}
	if s.api, err = api.New(api.Config{
		Client: cfg.Client, Counters: s.counters, Prefix: cfg.Prefix, Enlister: s.recruiter, Hooks: hooks, Logger: cfg.Logger,
	}); err != nil {
		return err
	}
	for _, job := range s.api.Jobs() {
		if err := s.recruiter.Install(job, jobRate); err != nil {
			return err
		}
	}
	s.dashboard, err = dashboard.New(dashboard.Config{
		Client: cfg.Client, Fleet: cfg.Fleet, Counters: s.counters, Survey: s.survey,
		Prefix: cfg.Prefix, Actions: cfg.Actions, Logger: cfg.Logger,
	})
	return err
}

// routes dispatches by path. It is no ServeMux, which would redirect paths with dots or
// double slashes.
func (s *Server) routes() http.Handler {
	metrics := promhttp.HandlerFor(s.cfg.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	guarded := steal.Middleware(s.recruiter)(s.bodies.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/v1/"), path == "/openapi.json":
			s.api.ServeHTTP(w, r)
		case access.Of(r.Context()).Prefix != "":
			api.WriteProblem(w, access.Of(r.Context()).MaySeeAll())
		case path == "/metrics":
			metrics.ServeHTTP(w, r)
		default:
			s.dashboard.ServeHTTP(w, r)
		}
	})))
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

// below serves a handler below a prefix of paths.
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

// close releases everything that New opened.
func (s *Server) close() {
	if s.counters != nil {
		s.counters.Close()
	}
}
