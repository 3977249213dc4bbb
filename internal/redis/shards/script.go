package shards

import "embed"

// Scripts are the scripts and fragments that belong to the library of each kind.
//
//go:embed *.lua
var Scripts embed.FS
