// Package tracing shows OpenTelemetry what the structures of Millrace do, and
// carries a trace with a message from its writer to its handler.
//
// # The problem
//
// A request that hands work on ends long before the work does. In its trace the
// work is missing, and the work's own trace does not tell who asked for it. And a
// request that is slow because Redis was, or because it was recruited for upkeep,
// shows a gap that nobody can explain.
//
// # The mechanism
//
// A hook is put into the Config of every structure, once for all. It makes spans
// with the TracerProvider that it is given, and adds to each message the headers of
// the propagator, such as W3C's traceparent:
//
//	 writer's trace                                    handler
//	──────────────────────────────────────────        ─────────────────────────
//	request ─┬─ script call (client)                  ┌─▶ ... (its own spans)
//	         │                                        │
//	         └─ OnWrite: traceparent ─▶ message ─▶ handle (consumer)
//
// There are three kinds of spans:
//
//   - Each try of a script call is a span of kind client, by the name of the
//     script, ick.add. What is repeated after a lost reply is a span for each try,
//     with its number in millrace.try.
//   - Each run of a handler is a span of kind consumer, named after the kind of
//     structure: handle ick. The handler's context is under it, and so is what the
//     handler calls with that.
//   - A recruit for upkeep is a span named after the job, steal ick.retry, but
//     only under a span of the caller that has not ended: it says where a
//     request's time went. The floor of a recruiter, and what is run behind a
//     response, keep nobody waiting. It is made when the recruit has ended, so the
//     calls of its slices lie beside it and not under it.
//
// # Parent, not link
//
// The span of a single message's handler is a child of the writer's span, each
// delivery one of its own. The conventions for messaging allow that or a link.
// A child answers what people ask, what became of this request, in one picture;
// the decision to sample a request holds for its messages, too; and what is in the
// baggage arrives. The price is that a trace is as long as its messages wait.
// Where that is too much, let the writer write under a context without a span.
//
// A batch has many writers and cannot be the child of all; its span is under the
// consumer's own, if there is one. The marks of an Ick carry nothing at all: they
// fold, and a mark of which a hundred writers have a part is nobody's.
//
// # The attributes
//
//	db.system.name            redis           of calls, and
//	db.operation.name         EVALSHA
//	db.stored_procedure.name  the script
//	db.response.status_code   the code of what Redis refused with: LOADING
//	messaging.system          millrace        of handlers, and
//	messaging.operation.name  handle
//	messaging.operation.type  process
//	millrace.structure        the kind of structure: ick
//	millrace.size             how many members or messages
//	millrace.pickup_delay_ms  how long the oldest of them waited; absent if unknown
//	millrace.attempt          the number of the delivery; absent if there is none
//	millrace.key              the structure's base key, of calls and handlers
//	millrace.try              of calls
//	millrace.job, millrace.via, millrace.outcome, millrace.rounds   of recruits
//	error.type                what went wrong
//
// The error.type is the code of the millrace.Error, or else that of Redis, or
// else panic, interrupted, timeout or _OTHER; the status holds the whole text. Keys may be attributes of spans,
// where they could not be labels of metrics: a span is kept for itself, and a value
// of its own costs no series.
//
// # The wrinkle
//
// A consumer that is idle asks Redis about once a second, and as there is nothing
// around it, each call is a trace of one span. A sampler drops those best: one for
// roots that looks at the kind, since a root of kind client says little.
//
// OpenTelemetry's own default for the global propagator is none. A program that
// wants traces to travel says otel.SetTextMapPropagator, or gives one to [Config].
//
// # When not to use it
//
// A span for each call is worth its price where a call is one of a few in a
// request. A program that marks a hundred thousand members a second should sample,
// or leave the Hook out there and watch it by metrics.
package tracing
