package directory

import (
	_ "embed"

	"github.com/millrace/millrace/internal/script"
)

//go:embed confirm.lua
var confirmSource string

//go:embed change.lua
var changeSource string

//go:embed hint.lua
var hintSource string

//go:embed hints.lua
var hintsSource string

// scripts are all the scripts that a directory runs.
type scripts struct {
	confirm, change, hint, hints *script.Script
}

var standardScripts = &scripts{
	confirm: script.New("directory.confirm", confirmSource),
	change:  script.New("directory.change", changeSource),
	hint:    script.New("directory.hint", hintSource),
	hints:   script.New("directory.hints", hintsSource),
}
