package dashboard

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/scatter"
)

// Survey is the source of all numbers. A *survey.Survey is one.
type Survey interface {
	// View returns the latest view, never nil.
	View() *survey.View

	// Watch yields the latest view at once, and then each new one, until ctx ends.
	Watch(ctx context.Context) iter.Seq[*survey.View]

	// Refresh surveys now, including new structures.
	Refresh(ctx context.Context) (*survey.View, error)

	// Series returns the history of one structure, for a chart.
	Series(kind survey.Kind, name string) survey.Series
}

// Config configures the pages. It needs a Client and a Survey.
type Config struct {
	// Client is the connection to Redis. The caller closes it.
	Client rueidis.Client

	// Fleet is the fleet of that client, for the doctor. Defaults to none.
	Fleet *fleet.Fleet

	// Counters are the servers of scattered counters. Defaults to none.
	Counters *scatter.Scatter

	// Survey is the source of all numbers. It must run.
	Survey Survey

	// Prefix is the path of the pages for browsers, such as /millrace; links begin with
	// it. The caller strips it from requests, as http.StripPrefix does. Defaults to none.
	Prefix string

	// Actions lets people change things. Defaults to false: pages are read-only.
	Actions bool

	// Logger logs actions, and pages that could not be made. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// Dashboard is the pages: one http.Handler.
type Dashboard struct {
	cfg       Config
	pages     *http.ServeMux
	templates map[string]*sheet
	assets    *assets
	audit     *audit.Log
	doctor    lastReport
	memo      memo
	cross     http.CrossOriginProtection
	streams   chan struct{} // one element for each open stream
	drained   chan struct{} // closed by Drain
	drain     sync.Once
}

// New returns the pages without asking Redis anything. Errors are derived from
// [millrace.ErrBadArgument].
func New(cfg Config) (*Dashboard, error) {
	switch {
	case cfg.Client == nil:
		return nil, millrace.ErrBadArgument.Errorf("the dashboard needs a Client")
	case cfg.Survey == nil:
		return nil, millrace.ErrBadArgument.Errorf("the dashboard needs a Survey")
	case cfg.Prefix != "" && (!strings.HasPrefix(cfg.Prefix, "/") || strings.HasSuffix(cfg.Prefix, "/")):
		return nil, millrace.ErrBadArgument.Errorf("the prefix %q is not one like /millrace", cfg.Prefix)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	d := &Dashboard{cfg: cfg, audit: audit.New(cfg.Client, cfg.Logger, slog.LevelWarn), streams: make(chan struct{}, maxStreams), drained: make(chan struct{})}
	var err error
	if d.assets, err = readAssets(); err != nil {
		return nil, err
	}
	if d.templates, err = d.readTemplates(); err != nil {
		return nil, err
	}
	d.pages = d.routes()
	return d, nil
}

// Drain ends the streams of all pages, now and from now on. The pages show that the
// connection is lost, and reconnect to the next process.
func (d *Dashboard) Drain() { d.drain.Do(func() { close(d.drained) }) }

// ServeHTTP answers a request.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	switch {
	case r.URL.Path == "":
		http.Redirect(w, r, d.link(), http.StatusPermanentRedirect)
		return
	case !clean(r.URL.EscapedPath()): // http.ServeMux would redirect it without the prefix
		d.refuse(w, r, errNoPage)
		return
	}
	if err := d.cross.Check(r); err != nil {
		d.refuse(w, r, errCrossOrigin)
		return
	}
	d.pages.ServeHTTP(w, r)
}

// clean reports whether a path is in its shortest form.
func clean(escaped string) bool {
	return path.Clean(escaped) == escaped || path.Clean(escaped)+"/" == escaped
}

// protect sets the headers that protect the reader from hostile names and messages. The
// browser runs and applies nothing inline.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// link returns the path of a page for a browser. Parts may be any bytes.
func (d *Dashboard) link(parts ...string) string {
	var b strings.Builder
	b.WriteString(d.cfg.Prefix)
	if len(parts) == 0 {
		b.WriteByte('/')
	}
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(segment(part))
	}
	return b.String()
}

// routes puts pages and actions under their paths, without the prefix. A page at
// /path has its stream at /live/path.
func (d *Dashboard) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, p := range []page{
		{"/{$}", "overview", "Overview", d.overview},
		{"/queues", "queues", "Queues", d.queues},
		{"/queues/{name}", "queue", "Queues", d.queue},
		{"/queues/{name}/write", "write", "Queues", d.newMessage},
		{"/queues/{name}/search", "search", "Queues", d.search},
		{"/queues/{name}/failures", "failures", "Queues", d.failures},
		{"/queues/{name}/readers", "readers", "Queues", d.readers},
		{"/queues/{name}/schedules/{schedule}", "schedule", "Schedules", d.schedule},
		{"/queues/{name}/tenants/{tenant}", "tenant", "Queues", d.tenant},
		{"/queues/{name}/batches", "batches", "Queues", d.batches},
		{"/queues/{name}/batches/{batch}", "batches", "Queues", d.batch},
		{"/schedules", "schedules", "Schedules", d.schedules},
		{"/schedules/new", "schedule-new", "Schedules", d.newSchedule},
		{"/icks", "icks", "Dirty lists", d.icks},
		{"/icks/{name}", "ick", "Dirty lists", d.ick},
		{"/channels/{name}", "ick", "Dirty lists", d.channel},
		{"/stealing", "stealing", "Upkeep", d.stealing},
		{"/leases", "leases", "Leases", d.leases},
		{"/namespaces", "namespaces", "Namespaces", d.namespaces},
		{"/fleet", "fleet", "Fleet", d.fleet},
		{"/counters", "counters", "Counters", d.counters},
		{"/doctor", "doctor", "Doctor", d.examination},
		{"/audit", "audit", "Audit log", d.auditLog},
	} {
		mux.HandleFunc("GET "+p.path, d.show(p))
		mux.HandleFunc("GET /live"+p.path, d.stream(p))
	}
	for path, a := range actions {
		section, word, _ := strings.Cut(path, "/")
		mux.HandleFunc("POST /"+section+"/{name}/"+word, d.act(section, word, a))
	}
	for word, a := range scheduleActions {
		mux.HandleFunc("POST /queues/{name}/schedules/{schedule}/"+word, d.act("schedules", word, a))
	}
	for word, a := range tenantActions {
		mux.HandleFunc("POST /queues/{name}/tenants/{tenant}/"+word, d.actOnTenant(word, a))
	}
	for word, a := range batchActions {
		mux.HandleFunc("POST /queues/{name}/batches/{batch}/"+word, d.actOnBatch(word, a))
	}
	mux.HandleFunc("GET /queues/{name}/tenants", d.openTenant)
	mux.HandleFunc("GET /queues/{name}/messages/{id}", d.openMessage)
	mux.HandleFunc("POST /schedules/new", d.create)
	mux.HandleFunc("POST /queues/{name}/write", d.writeMessage)
	mux.HandleFunc("GET /open/{section}", d.open)
	mux.HandleFunc("GET /charts/{kind}/{file}", d.chartJSON)
	mux.HandleFunc("GET /assets/{name}", d.asset)
	mux.HandleFunc("/", d.elsewhere)
	return mux
}
