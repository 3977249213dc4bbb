// Package server is Millrace as a service: an HTTP API for programs in any language,
// pages for people, and what machines that watch ask for. It is one [http.Handler],
// which `millrace serve` puts on a port, and which a Go program may mount beside
// its own.
//
// # The problem
//
// The structures are a Go library. A team has other languages, too, and the one who
// is called at night has a browser, and wants to see what waits, since when, and to
// do something about it.
//
// # The mechanism
//
//	            ┌─────────────────────── Server ───────────────────────┐
//	            │          ┌─▶ /healthz, /readyz                       │
//	request ────┼──────────┤          ┌─▶ /v1/, /openapi.json   api    ├──▶ Redis, or a fleet
//	            │          └─▶ guard ─┼─▶ /metrics         ┐          │       ▲
//	            │                     └─▶ /       dashboard ┴─ survey ─┼───────┘
//	            │  Run: survey, recruiter, totals                      │
//	            └──────────────────────────────────────────────────────┘
//
// The API (package api) works on the structures as a Go program does. The pages
// (package dashboard) and the metrics are drawn from what a survey (package survey)
// sees when it looks round every few seconds, so that ten people who watch ask no
// more of Redis than one.
//
// The service keeps nothing in its memory that matters. Any number of them may run
// on one Redis, and one that is killed takes nothing along: what it had handed out
// and was not acknowledged comes again.
//
// # Who may ask
//
// Nobody is asked for credentials unless [Config.Auth] says so, and then the service
// belongs on a loopback address, as the command sees to. With it, all but the two
// questions about health need a token or a user with a password. Beyond that:
//
//   - A page of another site cannot have a browser change anything, nor use the
//     API at all, whose reads take messages: what browsers say of a request's origin
//     is believed ([http.CrossOriginProtection], Sec-Fetch-Site). Over plain HTTP to
//     another machine they say less, so that a page which hides its own name may have
//     messages taken there: speak TLS.
//   - Without credentials only the names in [Config.Hosts] are answered to, so that a
//     stranger's name which was made to lead here does not count.
//   - Who may ask may do everything that the API can. There are no roles: who needs
//     them gives services of their own to those who should do less, with a Redis
//     user that may do less.
//
// # Who takes too long
//
// Whoever asks may go slowly, or stop half way, and must not hold anything for ever.
// [Server.Serve] gives a client 5 seconds for a header, 35 until the body is there,
// and 2 minutes from the header on until it has its answer. The handler alone cannot
// see to that: a program that mounts it on an [http.Server] of its own sets
// ReadHeaderTimeout, ReadTimeout and WriteTimeout there. Long polls outlive the second,
// which ends with the body, and need the third to be longer than a minute and a half;
// streams of the pages push both ahead of themselves.
//
// # The end
//
// When the context of [Server.Serve] ends, no connection is taken any more, /readyz
// says so, long polls are answered with what they have, which is nothing, streams of
// the pages end, and other requests have 20 seconds to finish.
//
// # When not to use it
//
// A Go program should use the library: it saves a hop, shares its connections, wakes
// within a round trip, and a handler's messages are extended and handed back by
// themselves, all of which a client of the API does by hand.
package server
