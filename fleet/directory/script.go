package directory

import (
	_ "embed"

	script "github.com/millrace/millrace/internal/oldscript"
)

//go:embed confirm.lua
var confirmSource string

//go:embed change.lua
var changeSource string

//go:embed hint.lua
var hintSource string

//go:embed hints.lua
var hintsSource string

//go:embed lead.lua
var leadSource string

//go:embed note.lua
var noteSource string

// scripts are all the scripts that a directory runs.
type scripts struct {
	confirm, change, hint, hints, lead, note *script.Script
}

var standardScripts = &scripts{
	confirm: script.New("directory.confirm", confirmSource),
	change:  script.New("directory.change", changeSource),
	hint:    script.New("directory.hint", hintSource),
	hints:   script.New("directory.hints", hintsSource),
	lead:    script.New("directory.lead", leadSource),
	note:    script.New("directory.note", noteSource),
}
