package server

import "net/http"

// Front returns what speaks HTTP in front of the service, for tests that cannot wait
// for as long as its limits are.
func (s *Server) Front() *http.Server { return s.front() }
