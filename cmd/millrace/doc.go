// Command millrace looks after the Millrace structures in a Redis, for people
// and for programs in any language.
//
//	millrace [--redis URL] [--json] NOUN VERB ...
//
// Each noun is a file: its commands as structs that kong fills from the command
// line, each with a Run method, and the shape of its documents beside them.
//
//	arguments ──▶ arrange ──▶ kong ──▶ Run ──▶ print: a table, or one document
//	              flags from            │
//	              members               └────▶ fail: message and hint, exit code
//
// # The contract
//
// Results go to standard output: tables for people, or one JSON document with
// --json. Everything else goes to standard error, an error as a message with a
// hint, or as one line of JSON. The exit code is 0, or 1 when Redis or the
// structure refused, or 2 when the command line was wrong. Error codes that
// begin with "bad_" are those of exit code 2. docs/CLI.md shows every document,
// and a test runs all that it shows.
//
// # The wrinkle
//
// Members are bytes, and JSON is text. Bytes that are not UTF-8 are written as
// {"base64":"..."}, and an argument of that form is decoded, so whatever the
// command prints it also takes; see jsontype.Text.
package main
