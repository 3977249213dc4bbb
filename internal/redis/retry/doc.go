// Package retry repeats calls to Redis, and decides which errors are worth it.
//
// A reply can be lost after the server has executed the call. Every script of Millrace may be
// repeated: it is idempotent, or known by its lane (see package reqid). So a lost connection, a
// failover or a loading server is waited out here, within the caller's context and a fixed
// timeout. Replies such as a wrong type, full memory or a syntax error are not repeated: they
// would be the same the next time.
package retry
