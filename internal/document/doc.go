// Package document defines the JSON documents of Millrace: the output of the command with
// --json, and the answers of the service. Each is defined once, so a program that reads one
// reads the other.
//
//	structure ──▶ Go values ──▶ document ──┬─▶ Encode ──▶ millrace ... --json
//	                                       └─▶ server ──▶ HTTP
//
// docs/CLI.md is the contract: fields may be added, but none is renamed or removed. A
// function OfX converts a value of a structure. Documents that only the command or only the
// service has are defined there; those here are not below server/internal because the command
// prints them.
//
// # Special values
//
// [Text] is bytes: text that is not UTF-8 is written as {"base64":"..."}. [Score] is a
// number that may be infinite. [Duration] is a duration as text, only in requests; answers
// have milliseconds, in fields that end in _ms. These types describe themselves to
// [huma.Registry].
package document
