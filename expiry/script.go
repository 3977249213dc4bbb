package expiry

import (
	"embed"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the scripts of hashes and of values, and of their namespaces.
var library = script.Load(folder, "K:")

var (
	// errNoShard means that nothing was stored in a shard so far.
	errNoShard = &millrace.Error{Code: "no_shard"}

	// errShards means that a shard is one of another number than the caller knows.
	errShards = &millrace.Error{Code: "other_shards"}

	// errIndex means that the deadlines of a hash are lost.
	errIndex = &millrace.Error{Code: "no_index"}
)

// scriptErrors are the names of what only these scripts answer with.
var scriptErrors = map[string]*millrace.Error{
	"NOSHARD": errNoShard,
	"SHARDS":  errShards,
	"NUMBER":  ErrNotNumber,
	"INDEX":   errIndex,
}
