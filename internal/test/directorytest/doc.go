// Package directorytest holds every *directory.Directory to its promises.
//
//	directorytest.Run(t, func(t *testing.T) *directory.Directory { ... })
//
// The function returns a directory without a fleet, which a test may use from several
// goroutines. A fault that only one store can have is tested beside that store.
package directorytest
