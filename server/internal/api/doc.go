// Package api is the HTTP API of Millrace: the structures for programs in any language,
// as JSON.
//
// # The mechanism
//
//	POST   /v1/queues/orders/messages             {"tenant":"acme","body":"hello"}  ──▶ 201 {"id":"..."}
//	GET    /v1/queues/orders/messages?block=30s                   ──▶ 200 {"messages":[{"receipt":...}]}
//	POST   /v1/queues/orders/ack                  {"receipts":["..."]}   ──▶ 200 {"acked":1,"stale":0}
//	POST   /v1/icks/search/marks                  {"members":["doc:17"]}  ──▶ 200 {"new":1,"lowered":0}
//	POST   /v1/leases/nightly/acquire             {"ttl":"10m"}    ──▶ 200 {"token":...}, or 409 held
//	POST   /v1/hashes/sessions/user:17/set        {"fields":{"token":"3f9a"},"ttl":"30m"}
//	POST   /v1/counters/impressions/add           {"n":1}
//	GET    /openapi.json                          all of it
//
// What a request passes on its way:
//
//	admit ──▶ once ──────────▶ huma ───────────▶ the structure ──▶ document, or problem
//	path,     if it has an     which operation,  within Timeout
//	method,   Idempotency-Key  is the body as
//	strict                     described
//	JSON
//
// What is asked for is described by the very types that requests are read into, so
// /openapi.json cannot say anything else than what is done; the tests hold all that is
// asked and answered against it.
//
// # Conventions
//
// Names are percent-encoded in paths; in paths and queries any byte may be, and a slash
// is %2F. "." and ".." cannot be names here, since clients and proxies resolve them, and
// a path that would have to be cleaned is refused and never redirected. In JSON text is
// UTF-8 and other bytes are {"base64":"..."}, as in what the command prints; see package
// document. Durations are given as on a command line, "500ms" or "10m", and told in
// milliseconds.
//
// Nothing is passed over in silence: a name in a body or a query that nobody knows, or
// that comes twice, null, a second document, bytes that are no Unicode are refused, and
// the problem says where they are. Lists and batches have 1,000 entries at most. Answers
// may have more fields one day, and clients pass over those.
//
// A GET of messages takes them, so HEAD, which would have to do so as well, is not
// known. It is a long poll: with block=30s it is answered as soon as a message is there.
// If the client goes while it waits, what was taken for it is handed back.
//
// # Errors
//
// Errors are problems by RFC 9457, application/problem+json: the code is for programs,
// detail and hint are for people, and some have more fields.
//
//	400  bad_...       the request is wrong; nothing was done
//	404  not_found     there is no such thing
//	409  stale, held, lost, expired, evictable, too_many, in_progress, ...
//	413  too_large     the body is; 408 slow_body, 415 media_type
//	422  key_reused    the Idempotency-Key was
//	500  broken        what is in Redis is no such structure; 501 unknown_version
//	502  no_permission, redis      Redis refused
//	503  unavailable, timeout, read_only, uncertain, partial   come again, as Retry-After says
//	507  full          Redis is full; nothing was written
//
// An empty read, a paused queue and a delete of what is not there are no errors.
//
// # Repeating
//
// After a 503, or when no answer came, nobody knows whether the request was
// done. One that has an Idempotency-Key of 1 to 255 printable ASCII characters may be
// repeated as it was: it is done once. What is promised is this:
//
//   - The answer is kept for 24 hours, under the principal ([WithPrincipal]), the method,
//     the path and the key. A repeat has the same status and body, and the header
//     Idempotency-Replayed. That holds for refusals, too, such as 409 held: who wants to
//     try anew draws a new key.
//   - The same key with another query or body is refused (422 key_reused). While the
//     first request is under way, repeats are told so (409 in_progress).
//   - What was begun is done to its end, and its answer kept, also if the client hangs
//     up. Only waiting for a lease ends with the client; a repeat waits again, for the
//     same one.
//   - What failed (5xx) is not kept, and what was refused before it was looked at neither.
//     A repeat is the same request to the structure as the first one, so that one
//     which did it all the same answers as it did, for 24 hours, too. The same holds if
//     the process was killed between the work and keeping its answer, and for a server
//     that is so full that nothing can be kept: there, what drains goes on, and as nobody
//     knows which keys were used, none is refused.
//   - What is idempotent by nature is not remembered. In these cases it is done again,
//     which changes nothing more, but the answer counts what the repeat found: for
//     marks, retry and drop of an Ick's parked members, resize, purge, redrive of all
//     that are dead, and every DELETE.
//   - A server that may evict any key may evict an answer. A failover may lose one.
//
// A key costs two round trips, and its answer takes some 600 bytes of Redis and its own
// length, in the namespace "http" of package expiry: ten a second are half a gigabyte in
// a day. What is idempotent by nature needs no key: a write with a dedupe id, an ack, a
// commit, a release.
//
// # The wrinkle
//
// Messages and marks are handed out at least once. Whoever dies, or takes longer than
// the visibility, or never got the answer to its read, leaves what it had to come again,
// so work must be idempotent; that a message comes only once is nothing that a key can
// promise.
//
// # When not to use it
//
// A Go program should use the library: it saves a hop, and its handlers' messages and
// leases are extended, handed back and given up by themselves, which a client of the API
// does by hand.
package api
