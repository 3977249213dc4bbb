// Package api is the HTTP API of Millrace: the structures for programs in any language,
// as JSON.
//
// # The mechanism
//
//	POST   /v1/queues/orders/messages             {"tenant":"acme","body":"hello"}  ──▶ 201 {"id":"..."}
//	POST   /v1/queues/orders/receive              {"block":"30s"}  ──▶ 200 {"messages":[{"receipt":...}]}
//	PUT    /v1/queues/orders/schedules/daily      {"cron":"0 3 * * *","tenant":"acme"}  ──▶ 200 {"next_at":...}
//	POST   /v1/queues/orders/ack                  {"receipts":["..."]}   ──▶ 200 {"acked":1,"stale":0}
//	POST   /v1/icks/search/marks                  {"members":["doc:17"]}  ──▶ 200 {"new":1,"lowered":0}
//	POST   /v1/channels/pages/work                {"worker":"w1","max":100,"block":"20s"}  ──▶ 200 {"batches":[...]}
//	POST   /v1/leases/nightly/acquire             {"ttl":"10m"}    ──▶ 200 {"token":...}, or 409 held
//	POST   /v1/hashes/sessions/user:17/set        {"fields":{"token":"3f9a"},"ttl":"30m"}
//	POST   /v1/pinned/flags/user:17/set           {"value":"on","ttl":"30m"}
//	GET    /v1/trackers/tasks/queued?id=item-17   ──▶ 200 {"answers":[{"state":"queued",...}]}
//	POST   /v1/counters/impressions/add           {"n":1}
//	POST   /v1/counters                           {"counts":{"impressions":1,"clicks":1}}
//	GET    /openapi.json                          all of it
//
// The way of a request:
//
//	admit ──▶ once ──────────▶ huma ───────────▶ the structure ──▶ document, or problem
//	path,     if it has an     which operation,  within Timeout
//	method,   Idempotency-Key  is the body as
//	strict                     described
//	JSON
//
// The types that requests are read into also generate /openapi.json, so the description
// matches the API; tests check every request and answer against it.
//
// # Conventions
//
// Names in paths are percent-encoded; in paths and queries any byte is allowed, and a slash
// is %2F. "." and ".." cannot be names, since clients and proxies resolve them. A path that
// would have to be cleaned is refused, never redirected. In JSON, text is UTF-8 and other
// bytes are {"base64":"..."}, as the command prints them; see package document. Durations in
// requests are as on a command line, "500ms" or "10m"; in answers they are milliseconds.
//
// Nothing is ignored silently: unknown or repeated names in a body or a query, null, a
// second document, and invalid Unicode are refused with their place. Lists and batches have
// at most 1,000 entries. Answers may get more fields, which clients must ignore.
//
// GET and HEAD change nothing, so proxies and browsers may repeat and prefetch them.
// Receiving takes messages: it is a POST, and a long poll. With a block of 30s it answers as
// soon as there is a message. If the client disconnects while it waits, messages that were
// taken for it are returned. A request that asks to wait longer than Config.MaxBlock is
// refused, and /openapi.json says the limit.
//
// # Errors
//
// Errors are application/problem+json (RFC 9457): the code is for programs, detail and hint
// are for people. problem.go lists the codes of each status; docs/HTTP.md says what to do.
// An empty read, a paused queue and the deletion of a missing structure are no errors.
//
// # Idempotency-Key
//
// After a 503, or without an answer, a client does not know whether its request was applied.
// A request with an Idempotency-Key of 1 to 255 printable ASCII characters may be repeated
// unchanged: it is applied once. In detail:
//
//   - The answer to a request that succeeded is stored for 24 hours by principal
//     (package access), method, path and key. A repeat gets the same status and body, with
//     the header Idempotency-Replayed.
//   - An answer that is true for a time is stored for four fifths of it: that of acquire and
//     refresh until the lease ends, that of receive and extend until the messages are visible, that of
//     a worker's round until its messages are, or its lease of a channel ends.
//     One that is true for less than a second is not stored. A repeat after that runs again:
//     acquire takes the lease under the same token, and receive gets the messages that come.
//   - A refusal (4xx) is not stored. It changed nothing, so the request may be repeated under
//     its key until the state allows it. Of a batch of messages of which some were refused, a
//     repeat writes only those.
//   - The same key with another query or body is refused (422 key_reused). While the first
//     request is in progress, repeats get 409 in_progress.
//   - A started request is finished and its answer stored, also if the client disconnects.
//     Only waiting for a lease ends with the client; a repeat waits again for the same lease.
//   - A failure (5xx) is not stored. A repeat makes the same call to the structure; if the first call was applied
//     after all, the structure remembers it for 24 hours and returns its answer. The same
//     holds if the process was killed before it stored the answer, and while a server is too
//     full to store one; then a reused key is not refused either.
//   - Structures do not remember operations that are idempotent by nature: marks, rounds of a channel, retry and
//     drop of parked members, resize, purge, redrive of all, pause and resume, every PUT and every DELETE. Repeating
//     them changes nothing more, but the answer may have other counts.
//   - A server that may evict any key may evict an answer. A failover may lose one.
//
// A key costs two round trips, and about 600 bytes of Redis plus the answer, in the namespace
// "http" of package pinned: ten a second are half a gigabyte a day. Operations that are
// idempotent by nature need no key: a write with a dedupe id, an ack, a commit, a release.
//
// # The wrinkle
//
// Messages and marks are delivered at least once: a client that dies, exceeds the visibility
// timeout, or loses the answer to its read causes a redelivery. So work must be idempotent,
// and no key can change that.
//
// # When not to use it
//
// A Go program should use the library: it saves a hop, and it extends, returns and releases
// messages and leases by itself, which a client of the API does by hand.
package api
