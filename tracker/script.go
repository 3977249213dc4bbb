package tracker

import (
	_ "embed"

	script "github.com/millrace/millrace/internal/oldscript"
)

//go:embed open.lua
var openFragment string

//go:embed add.lua
var addSource string

//go:embed queued.lua
var queuedSource string

//go:embed place.lua
var placeSource string

//go:embed advance.lua
var advanceSource string

//go:embed oldest.lua
var oldestSource string

//go:embed settle.lua
var settleSource string

//go:embed stats.lua
var statsSource string

//go:embed delete.lua
var deleteSource string

// scripts are all the scripts that a tracker runs.
type scripts struct {
	add, queued, place, advance, oldest, settle, stats, delete *script.Script
}

var standardScripts = assemble(script.New)

// assemble makes the scripts with the function given.
func assemble(compile func(name, source string, fragments ...string) *script.Script) *scripts {
	return &scripts{
		add:     compile("tracker.add", addSource, openFragment),
		queued:  compile("tracker.queued", queuedSource, openFragment),
		place:   compile("tracker.place", placeSource, openFragment),
		advance: compile("tracker.advance", advanceSource, openFragment),
		oldest:  compile("tracker.oldest", oldestSource, openFragment),
		settle:  compile("tracker.settle", settleSource, openFragment),
		stats:   compile("tracker.stats", statsSource, openFragment),
		delete:  compile("tracker.delete", deleteSource),
	}
}
