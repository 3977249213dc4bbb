package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/millrace/millrace/server/internal/api"
)

const (
	// headerPatience is how long a client may take over its request's header.
	headerPatience = 5 * time.Second

	// requestPatience is how long it may take over all of its request. Without it
	// net/http waits for the rest of a body that nobody reads, also of one that is
	// refused before anybody knows who asks. It counts no longer when the body is there.
	requestPatience = headerPatience + api.BodyTimeoutDefault

	// answerPatience is how long after its header the answer must be with the client,
	// who may have a body sent, wait for a minute and take some time to read. Streams
	// of the pages give themselves more with all that they send.
	answerPatience = 2 * time.Minute

	// idlePatience is how long a connection may lie idle.
	idlePatience = 2 * time.Minute

	// maxHeader is how many bytes a header has at most.
	maxHeader = 64 << 10

	// drainTimeout is how long requests may go on when the service is to end.
	drainTimeout = 20 * time.Second
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

	server := s.front()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.Drain()
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

// front returns what speaks HTTP in front of the service, and puts up with nobody
// who takes too long.
func (s *Server) front() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerPatience,
		ReadTimeout:       requestPatience,
		WriteTimeout:      answerPatience,
		IdleTimeout:       idlePatience,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
}
