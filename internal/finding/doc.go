// Package finding has the one form in which Millrace says that something is wrong, and the
// numbers from which on it says so.
//
// # The problem
//
// The diagnosis of a queue, the doctor, the check of a fleet, the pages, metrics and
// `millrace top` all judge. With a scale of its own each needs a translation of the others'
// words, and the same server is nearly full for one of them and well for the next.
//
// # The mechanism
//
// A [Finding] has a [Severity], a code for programs, and for people a text and the next step.
// Packages that know more, such as the tenant or the member, embed it.
//
//	            the doctor, the check of a fleet      a queue
//	ok          as it should be
//	note        good to know, or a server is silent   nothing waits because of it
//	warning     it will cause trouble one day         a tenant waits that should not
//	critical    a promise does not hold               nothing moves
//
// Commands that check exit with 1 at a critical finding.
//
// "Unknown" is no severity: that a server does not answer a question says nothing about how bad
// the answer would be. It is a note whose code says why: silent, refused, unknown.
//
// All thresholds are in thresholds.go. A package that judges compares with those alone, so one
// question has one number; a test in internal/repo looks for others.
package finding
