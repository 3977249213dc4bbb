package pinned

import (
	"embed"

	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/redis/shards"
)

//go:embed *.lua
var folder embed.FS

// kind is shared by all namespaces of values.
var kind = shards.Kind{
	Package: "pinned", Shard: "mr:key:{", Record: "mr:keys:{", Version: "2", Registry: registry.Keys,
	Library: script.Load(folder, "K:", shards.Scripts),
	One:     "a value", Many: "pinned values",
}
