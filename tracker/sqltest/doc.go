// Package sqltest tests package tracker against real databases. It is a module of
// its own, so that their drivers are no dependencies of Millrace.
package sqltest
