package server

import (
	"context"
	"net/http"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/document"
)

// readyPatience is how long Redis may take before the service says that it is not
// ready.
const readyPatience = time.Second

// health is the answer of /healthz and /readyz.
type health struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

// healthz says that the process serves; restarting it would mend nothing as long
// as it does.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeHealth(w, health{OK: true})
}

// readyz says whether requests should be sent here: Redis answers, and the service
// is not about to end. Its reasons name no address: everybody may ask.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyPatience)
	defer cancel()
	switch {
	case s.draining.Load():
		writeHealth(w, health{Reason: "draining"})
	case s.answers(ctx) != nil:
		writeHealth(w, health{Reason: "redis does not answer"})
	default:
		writeHealth(w, health{OK: true})
	}
}

// answers asks Redis, and a fleet's partitions all at once: it is ready if one of
// them answers.
func (s *Server) answers(ctx context.Context) error {
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

func writeHealth(w http.ResponseWriter, h health) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !h.OK {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = document.Encode(w, h) // to somebody who may have gone
}
