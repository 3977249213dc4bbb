// Package retry decides who repeats a call to Redis, how often, and when an
// error is worth repeating for.
//
// A reply can be lost after the server did the work. A client that re-sends by
// itself then does the work twice, and one that never re-sends leaves every
// caller to write the same loop. Millrace repeats in exactly one place, here:
// every script may be repeated without harm, because it is idempotent by nature
// or is known by its lane (see package reqid), so a lost connection, a failover
// or a loading server is waited out within the caller's context and a fixed
// timeout.
//
// What is not repeated: answers. A wrong type, a full memory or a syntax error
// would be the same the next time.
package retry
