package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/server/internal/api"
)

const (
	headerTimeout = 5 * time.Second
	// requestTimeout covers the header and the body, also of a request that is refused
	// before its body is read.
	requestTimeout = headerTimeout + api.DefaultBodyTimeout
	// answerTimeout is from the header until the client has read the answer. It covers
	// the body, a long poll of a minute, and a slow reader. Streams of the pages extend
	// it with each event.
	answerTimeout = 2 * time.Minute
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10 // bytes
	// drainTimeout is how long requests may take to finish at shutdown.
	drainTimeout = 20 * time.Second
	// readyTimeout is how long Redis may take to answer /readyz.
	readyTimeout = time.Second
)

// Run does the work between requests, until ctx ends: it surveys the structures for
// pages and metrics, keeps the trackers, does due upkeep, and adds this process's counts to the totals of
// all processes. When ctx ends, /readyz fails and requests that wait return. Run returns
// the cause of ctx. Call it once.
func (s *Server) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.drain)()
	var all sync.WaitGroup
	runs := []func(context.Context) error{
		s.survey.Run,
		s.recruiter.Run,
		func(ctx context.Context) error {
			return upkeep.Publish(ctx, s.recruiter, s.cfg.Client, upkeep.PublishConfig{Logger: s.cfg.Logger})
		},
	}
	if len(s.cfg.Trackers) > 0 {
		runs = append(runs, s.keeper.Run, s.fill)
	}
	for _, run := range runs {
		all.Go(func() { _ = run(ctx) }) // returns the cause of ctx
	}
	all.Wait()
	s.close()
	return context.Cause(ctx)
}

// fill completes the first pass of each tracker, which jobs would take long for.
func (s *Server) fill(ctx context.Context) error {
	var all sync.WaitGroup
	for _, t := range s.cfg.Trackers {
		all.Go(func() {
			if stats, err := t.Stats(ctx); err == nil && stats.Passes > 0 {
				return
			}
			if err := t.Fill(ctx, nil); err != nil && ctx.Err() == nil {
				s.cfg.Logger.WarnContext(ctx, "a tracker is not filled yet; its jobs go on", "tracker", t.Name(), "error", err)
			}
		})
	}
	all.Wait()
	return nil
}

// Serve serves on a listener and calls Run, until ctx ends. Then it accepts no more
// connections, gives requests 20 seconds to finish, and returns nil. It closes the
// listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_ = s.Run(background)
	}()
	defer func() { stop(); <-ran }()
	server := s.httpServer()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.drain()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := server.Shutdown(bounded)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	s.api.Wait()
	return err
}

// httpServer returns the HTTP server of Serve, with its limits.
func (s *Server) httpServer() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
}

// drain makes requests that wait return, and /readyz fail. Other requests continue.
func (s *Server) drain() {
	s.draining.Store(true)
	s.api.Drain()
	s.dashboard.Drain()
}

// health is the answer of /healthz and /readyz.
type health struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

// healthz reports that the process serves. It does not depend on Redis: a restart would
// not help.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { writeHealth(w, "") }

// readyz reports whether to send requests here. Its reasons contain no address, since
// it needs no credentials.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	switch {
	case s.draining.Load():
		writeHealth(w, "draining")
	case s.ping(ctx) != nil:
		writeHealth(w, "redis does not answer")
	default:
		writeHealth(w, "")
	}
}

// ping asks Redis, or all partitions of a fleet at once, of which one answer is enough.
func (s *Server) ping(ctx context.Context) error {
	clients := []rueidis.Client{s.cfg.Client}
	if s.cfg.Fleet != nil {
		clients = s.cfg.Fleet.Partitions()
	}
	answers := make(chan error, len(clients))
	for _, c := range clients {
		go func() { answers <- c.Do(ctx, c.B().Ping().Build()).Error() }()
	}
	var err error
	for range clients {
		if err = <-answers; err == nil {
			return nil
		}
	}
	return err
}

func writeHealth(w http.ResponseWriter, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if reason != "" {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = jsontype.Encode(w, health{reason == "", reason}) // the client may have gone
}
