// Package overview reads the whole state of a fleet at one time, and writes it for people and
// for programs: the document of millrace fleet show.
//
// # The problem
//
// The map says who the members are, the members how they are, and the directory what agents
// did, which snapshots there are and what is left of changes. An operator needs all of it on one
// screen, at night, also when a part of it does not answer.
//
// # The mechanism
//
// [Read] asks all members and the directory at once and joins the answers in a [Fleet]. Its JSON is
// a contract, described in docs/CLI.md. [Fleet.Table] writes the same for people: what is wrong
// comes in words below the partitions, and what happened last.
//
// [Settle] looks again and again, until nothing becomes better any more.
//
// # Guarantees
//
// Nothing is changed. A member that does not answer within two seconds is down, and a directory
// that does not answer within three leaves its part out.
//
// # When not to use it
//
// To judge a fleet: package check says what is wrong and what to do.
package overview
