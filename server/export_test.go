package server

import (
	"net/http"

	"github.com/millrace/millrace"
)

// HTTPServer returns the HTTP server, for tests with shorter limits.
func (s *Server) HTTPServer() *http.Server { return s.httpServer() }

// Drain makes requests that wait return, and /readyz fail.
func (s *Server) Drain() { s.drain() }

// HeldBodies returns how many bytes of bodies the service holds.
func (s *Server) HeldBodies() int64 { return s.bodies.held.Load() }

// Recruited returns how often the service has run one of its jobs, however that ended.
func (s *Server) Recruited(name string) int64 {
	for _, job := range s.recruiter.Stats().Jobs {
		if job.Name == name {
			return job.Recruited()
		}
	}
	return 0
}

// OwnJobs returns the jobs that the service has for its own keys.
func (s *Server) OwnJobs() []millrace.Job { return s.api.Jobs() }
