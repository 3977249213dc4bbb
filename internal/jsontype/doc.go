// Package jsontype has the types of fields that JSON has no type for. The command reads and
// prints them, and so does the service; they describe themselves to [huma.Registry].
//
//	Text       bytes: a string, or {"base64":"..."} if they are not UTF-8
//	Score      a 64-bit float with all its digits, "inf" or "-inf"
//	Rate       deliveries per second: a number, or 5/s, 100/m, 10/h
//	Duration   a duration as text, "10m", only in requests; answers have milliseconds
//
// [Encode] writes a document on one line, as the contract in docs/CLI.md has it.
package jsontype
