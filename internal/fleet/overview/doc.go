// Package overview reads the whole state of a fleet at one time, and writes it for people and
// for programs: the document of millrace fleet show.
//
// # The problem
//
// The map lists the members, the members report their states, and the directory keeps the log of
// agents, the snapshots and the unfinished changes. An operator needs all of it on one
// screen, at night, also when a part of it does not answer.
//
// # The mechanism
//
// [Read] asks all members and the directory at once and joins the answers in a [Fleet]. Its JSON is
// a contract, described in docs/CLI.md. [Fleet.Table] writes the same for people: faults and the
// last events come in words below the partitions.
//
// [Settle] asks again and again, until the states of members do not improve any more.
//
// # Guarantees
//
// Nothing is changed. A member that does not answer within two seconds is down, and a directory
// that does not answer within three leaves its part out.
//
// # When not to use it
//
// To judge a fleet: package check reports faults and their remedies.
package overview
