// Package ops describes each operation of a structure once, for the command, the HTTP API, the
// pages and the audit log.
//
// An operation used to be written in four places, with a text, a list of fields and their limits
// in each, which drifted apart. Here it is one value, in one file:
//
//	Row                     which words, path, class and texts it has
//	In, Out                 its fields, with tags that the command and the API both read
//	Do(ctx, structure, In)  what it does
//	          │
//	          ├──▶ cmd/millrace              a struct that embeds In, and prints Out
//	          ├──▶ server/internal/api       In from the path, the query and the body; Out as JSON
//	          ├──▶ server/internal/dashboard a form that fills In, and a sentence
//	          └──▶ roles and the audit log   from the class of the Row
//
// The tree of the command and the pages stay by hand: they decide what a person sees, and call Do.
// A test in each of them demands that it has all operations that [All] returns.
//
// An operation that one surface alone has leaves the Words, the Path or the Form of its Row empty, and
// says why in Only. Where command and HTTP differ by nature, as where a lease is acquired, they share
// the Row, and the fields and documents that are the same.
//
// # Operators and programs
//
// The audit log has an operation by its class. A few are an operator's by their fields only: messages
// are made dead, the lease of another client is released. Then the fields, the request or the command
// have a method
//
//	OfOperator(ctx context.Context) bool
//
// and are noted if that says so.
//
// # Tags
//
// A field is documented by "doc", from which the command makes the help of its flag, with
// "minimum", "maximum", "enum" and "default", which mean the same for both. "json", "query" and
// "path" name the field for HTTP, "name" and "arg" for the command, where the name of the field is
// not good enough. Values are bytes ([jsontype.Text]), numbers, and durations
// ([jsontype.Duration]).
//
// # When not to use it
//
// What commands with a life of their own do (work, run, top, serve, demo), those of a fleet, long
// polls and streams of lines is written where they are.
package ops
