package upkeep

import (
	"embed"

	"github.com/millrace/millrace/internal/redis/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the scripts of the totals.
var library = script.Load(folder, "K:")

// baseKey is the hash that is the totals: version, and a field for each job.
const baseKey = "mr:steal:{totals}"
