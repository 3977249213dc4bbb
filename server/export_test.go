package server

import "net/http"

// HTTPServer returns the HTTP server, for tests with shorter limits.
func (s *Server) HTTPServer() *http.Server { return s.httpServer() }

// Drain makes requests that wait return, and /readyz fail.
func (s *Server) Drain() { s.drain() }

// HeldBodies returns how many bytes of bodies the service holds.
func (s *Server) HeldBodies() int64 { return s.bodies.held.Load() }
