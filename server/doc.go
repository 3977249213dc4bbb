// Package server is Millrace as a service: an HTTP API for programs in any language,
// pages for people, and metrics. It is one [http.Handler], which `millrace serve` serves
// and a Go program may mount beside its own.
//
// # The problem
//
// The structures are a Go library. A team has other languages, too, and an operator with
// a browser wants to see which messages wait, since when, and to act on them.
//
// # The mechanism
//
//	            ┌─────────────────────── Server ───────────────────────┐
//	            │          ┌─▶ /healthz, /readyz                       │
//	request ────┼──────────┤          ┌─▶ /v1/, /openapi.json   api    ├──▶ Redis, or a fleet
//	            │          └─▶ guard ─┼─▶ /metrics         ┐          │       ▲
//	            │                     └─▶ /       dashboard ┴─ survey ─┼───────┘
//	            │  Run: survey, recruiter, trackers, totals            │
//	            └──────────────────────────────────────────────────────┘
//
// The API calls the structures as a Go program does. Pages and metrics show the results
// of a survey, which reads all structures every few seconds, so ten viewers cost Redis
// no more than one.
//
// The service keeps no state that matters. Any number of them may run on one Redis. If
// one is killed, messages that it had delivered without acknowledgement are redelivered.
//
// # Access
//
// Without [Config.Auth] every client has access, so the service belongs on a loopback
// address; the command makes sure of that. With it, every request needs a token or a
// user with a password, except for /healthz and /readyz. Beyond that:
//
//   - A page of another site cannot change anything, nor use the API at all: the service
//     checks the origin that browsers send ([http.CrossOriginProtection], Sec-Fetch-Site).
//     Over plain HTTP to another machine browsers send less, and a page that hides its
//     origin may make the service work for GETs, whose answers it cannot read: use TLS.
//   - Without credentials the service answers only to the names in [Config.Hosts], which
//     stops DNS rebinding.
//   - A client may have a role, viewer, worker or operator, and be limited to names with a
//     prefix: see [ParseAuth]. Without a role it may do everything.
//
// # Slow clients
//
// [Server.Serve] gives a client 5 seconds for a header, 35 for the whole request, and 2
// minutes from the header until it has read the answer. A program that mounts the handler
// on its own [http.Server] sets ReadHeaderTimeout, ReadTimeout and WriteTimeout there.
// Long polls need a WriteTimeout above 90 seconds; streams of the pages extend it
// themselves.
//
// # Shutdown
//
// When the context of [Server.Serve] ends, it accepts no more connections, /readyz fails,
// long polls return empty, streams of the pages end, and other requests have 20 seconds
// to finish.
//
// # When not to use it
//
// A Go program should use the library: it saves a hop, and it extends and returns the
// messages of a handler by itself.
package server
