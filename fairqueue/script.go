package fairqueue

import (
	"embed"

	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the scripts of a queue.
var library = script.Load(folder, "K:")
