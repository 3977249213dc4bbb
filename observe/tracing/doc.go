// Package tracing reports the work of Millrace's structures to OpenTelemetry, and carries a
// trace with a message from its writer to its handler.
//
// # The problem
//
// A request that enqueues work ends long before the work does. Its trace lacks the work, and
// the trace of the work lacks its origin. And a request that is slow because of Redis, or
// because it was recruited for upkeep, has an unexplained gap.
//
// # The mechanism
//
// Put a hook into the Config of every structure. It makes spans with a TracerProvider, and
// adds the headers of a propagator, such as W3C's traceparent, to each message:
//
//	 writer's trace                                    handler
//	──────────────────────────────────────────        ─────────────────────────
//	request ─┬─ script call (client)                  ┌─▶ ... (its own spans)
//	         │                                        │
//	         └─ OnWrite: traceparent ─▶ message ─▶ handle (consumer)
//
// There are three kinds of spans:
//
//   - Each try of a script call is a span of kind client, named after the script: ick.add.
//     Its number is in millrace.try.
//   - Each run of a handler is a span of kind consumer, named after the kind of structure:
//     handle ick. The handler's context belongs to it.
//   - A recruit for upkeep is a span named after the job: steal ick.retry. It exists only
//     under a span of the caller that has not ended, because it explains where the time of a
//     request went; the recruiter's floor and slices behind a response delay no request. It
//     is made when the recruit has ended, so the calls of its slices are beside it.
//
// # Parent, not link
//
// The span of a message's handler is a child of the writer's span; each delivery is another
// child. The conventions for messaging allow that or a link. A child shows in one picture the
// whole course of a request, keeps its sampling decision, and has its baggage. The price: a trace
// lasts as long as its messages wait. To avoid that, write with a context without a span.
//
// A batch has many writers, so its span is under the span of the consumer, if there is one.
// Marks of an Ick carry nothing: they fold, so one mark may have a hundred writers.
//
// # Attributes
//
//	db.system.name            redis           of calls, and
//	db.operation.name         EVALSHA
//	db.stored_procedure.name  the script
//	db.response.status_code   the code of Redis' error: LOADING
//	messaging.system          millrace        of handlers, and
//	messaging.operation.name  handle
//	messaging.operation.type  process
//	millrace.structure        the kind of structure: ick
//	millrace.size             how many members or messages
//	millrace.pickup_delay_ms  how long the oldest of them waited; absent if unknown. Also on the span in which a program calls Read
//	millrace.attempt          the number of the delivery; absent if there is none
//	millrace.key              the structure's base key, of calls and handlers
//	millrace.try              of calls
//	millrace.job, millrace.via, millrace.outcome, millrace.rounds   of recruits
//	error.type                the error
//
// The error.type is the code of the millrace.Error, or that of Redis, or panic, interrupted,
// timeout or _OTHER; the status has the whole text. Spans may have keys as attributes, unlike
// metrics as labels: another value costs no series.
//
// # The wrinkle
//
// An idle consumer asks Redis about once a second, and each call is a trace of one span. A
// sampler for roots can drop them by their kind, client.
//
// The default global propagator of OpenTelemetry does nothing. To carry traces, call
// otel.SetTextMapPropagator, or set [Config].Propagator.
//
// # When not to use it
//
// A span for each call is worth its cost if a request has few calls. A program that marks a
// hundred thousand members a second should sample, or use metrics instead.
package tracing
