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
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/scatter"
)

// Survey is where the numbers of the pages come from. A *survey.Survey is one.
type Survey interface {
	// View returns the latest look at all structures; never nil.
	View() *survey.View

	// Watch yields the latest look at once, and then each new one, until ctx ends.
	Watch(ctx context.Context) iter.Seq[*survey.View]

	// Refresh looks now, and finds structures that are new.
	Refresh(ctx context.Context) (*survey.View, error)

	// Series returns what was seen of one structure, for a chart.
	Series(kind survey.Kind, name string) survey.Series
}

// Config is what the pages show, and what they may do.
type Config struct {
	// Client is the way to Redis. It stays the caller's, and must be there.
	Client rueidis.Client

	// Fleet is the fleet whose client that is, for the doctor. Defaults to none.
	Fleet *fleet.Fleet

	// Counters are the servers over which counters are scattered. Defaults to none:
	// the page about counters says so.
	Counters *scatter.Scatter

	// Survey is where numbers come from. It must be there, and run.
	Survey Survey

	// Prefix is the path below which the pages lie for browsers, such as /millrace;
	// links begin with it. Whoever puts the pages there strips it from requests, as
	// http.StripPrefix does. Defaults to none.
	Prefix string

	// Actions lets people change things. Defaults to off: the pages are to look at.
	Actions bool

	// Principal says who makes a request, by its context, for the log of actions.
	// Defaults to nobody being known.
	Principal func(ctx context.Context) string

	// Logger is told of every action, and of pages that could not be made. Defaults
	// to slog.Default().
	Logger *slog.Logger
}

// Dashboard is the pages: one http.Handler. New makes it.
type Dashboard struct {
	cfg       Config
	pages     *http.ServeMux
	templates map[string]*sheet
	assets    *assets
	doctor    physician
	memo      memo
	cross     http.CrossOriginProtection
	streams   chan struct{} // has a place for each stream that is open
	drained   chan struct{} // closed by Drain
	drain     sync.Once
}

// New returns the pages. It asks nothing of Redis. Errors are derived from
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
	if cfg.Principal == nil {
		cfg.Principal = func(context.Context) string { return "" }
	}
	d := &Dashboard{cfg: cfg, streams: make(chan struct{}, mostStreams), drained: make(chan struct{})}
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

// Drain ends the streams of all open pages, and those that come later at once. The
// pages say that they have lost the connection, and find the next process. It cannot
// be taken back.
func (d *Dashboard) Drain() { d.drain.Do(func() { close(d.drained) }) }

// ServeHTTP answers a request.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	switch {
	case r.URL.Path == "":
		http.Redirect(w, r, d.link(), http.StatusPermanentRedirect)
		return
	case !clean(r.URL.EscapedPath()): // http.ServeMux would send it elsewhere, and knows no prefix
		d.refuse(w, r, errNoPage)
		return
	}
	if err := d.cross.Check(r); err != nil {
		d.refuse(w, r, errCrossOrigin)
		return
	}
	d.pages.ServeHTTP(w, r)
}

// clean reports whether a path is as pages write it.
func clean(escaped string) bool {
	return path.Clean(escaped) == escaped || path.Clean(escaped)+"/" == escaped
}

// protect sets what keeps a page that shows names and messages of others from being
// used against its reader. Nothing inline is run or applied, whatever gets into a
// page.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// link writes the path of a page, for a browser. Parts are any bytes.
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
