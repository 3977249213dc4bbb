// Package document holds the JSON documents of Millrace: what the command prints
// with --json, and what the service answers with. Each is defined once, here, so
// that a program that reads the one reads the other.
//
//	structure ──▶ its Go values ──▶ document ──┬─▶ Encode ──▶ millrace ... --json
//	                                           └─▶ server ──▶ HTTP
//
// docs/CLI.md is the contract: fields may be added, and none is renamed or removed.
// A function whose name begins with Of makes a document of what a structure said.
// What only one of the two has stays with it.
//
// # Values with a form of their own
//
// [Text] is bytes. Names, members, tenants and bodies are that, and JSON is text: what
// is not UTF-8 is written as {"base64":"..."}. [Score] is a number that may be
// infinite. [Duration] is how long something takes, as people write it; it is only ever
// given. What is told has milliseconds, in fields that end in _ms.
//
// These types tell [huma.Registry] what they look like, since nobody can see it from
// their Go types.
package document
