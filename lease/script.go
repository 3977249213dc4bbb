package lease

import (
	_ "embed"

	"github.com/millrace/millrace/internal/script"
)

//go:embed open.lua
var openFragment string

//go:embed acquire.lua
var acquireSource string

//go:embed refresh.lua
var refreshSource string

//go:embed release.lua
var releaseSource string

//go:embed show.lua
var showSource string

//go:embed reap.lua
var reapSource string

// scripts are all the scripts that a lease runs.
type scripts struct {
	acquire, refresh, release, show, reap *script.Script
}

var standardScripts = &scripts{
	acquire: script.New("lease.acquire", acquireSource, openFragment),
	refresh: script.New("lease.refresh", refreshSource, openFragment),
	release: script.New("lease.release", releaseSource, openFragment),
	show:    script.New("lease.show", showSource, openFragment),
	reap:    script.New("lease.reap", reapSource, openFragment),
}
