package redistest

// AwaitRepeats is for tests of another package.
var AwaitRepeats = awaitRepeats
