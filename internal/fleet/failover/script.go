package failover

import (
	"embed"

	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the scripts that members run.
var library = script.Load(folder, "K:")
