package directory

import (
	"embed"

	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the scripts of a directory.
var library = script.Load(folder, "K:")
