package expiry

import (
	"embed"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/redis/shards"
)

//go:embed *.lua
var folder embed.FS

// kind is shared by all namespaces of hashes.
var kind = shards.Kind{
	Package: "expiry", Shard: "mr:hash:{", Record: "mr:hashes:{", Version: "4", Registry: registry.Hashes,
	Library: script.Load(folder, "K:", shards.Scripts),
	Errors:  map[string]*millrace.Error{"NUMBER": ErrNotNumber, "INDEX": errIndex},
	One:     "a field", Many: "expiring fields",
}
