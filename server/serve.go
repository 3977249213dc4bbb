package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// headerPatience is how long a client may take over its request's header.
	headerPatience = 5 * time.Second

	// idlePatience is how long a connection may lie idle.
	idlePatience = 2 * time.Minute

	// maxHeader is how many bytes a header has at most.
	maxHeader = 64 << 10

	// drainPatience is how long requests may go on when the service is to end.
	drainPatience = 20 * time.Second
)

// Serve serves on a listener until ctx ends, and does what goes on between
// requests. Then it takes no more connections, has requests that wait end, lets the
// others finish for 20 seconds at most, and returns nil. It closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_ = s.Run(background) // it ends with its context
	}()
	defer func() { stop(); <-ran }()

	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerPatience,
		IdleTimeout:       idlePatience,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.Drain()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainPatience)
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
