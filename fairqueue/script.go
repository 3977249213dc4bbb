package fairqueue

import (
	_ "embed"
	"slices"

	"github.com/millrace/millrace/internal/reqid"
	script "github.com/millrace/millrace/internal/oldscript"
)

//go:embed open.lua
var openFragment string

//go:embed version.lua
var versionFragment string

//go:embed waits.lua
var waitsFragment string

//go:embed move.lua
var moveFragment string

//go:embed due.lua
var dueFragment string

//go:embed write.lua
var writeSource string

//go:embed read.lua
var readSource string

//go:embed catchup.lua
var catchupSource string

//go:embed ack.lua
var ackSource string

//go:embed nack.lua
var nackSource string

//go:embed extend.lua
var extendSource string

//go:embed cancel.lua
var cancelSource string

//go:embed resize.lua
var resizeSource string

//go:embed pause.lua
var pauseSource string

//go:embed stats.lua
var statsSource string

//go:embed browse.lua
var browseSource string

//go:embed shape.lua
var shapeSource string

//go:embed redrive.lua
var redriveSource string

//go:embed purge.lua
var purgeSource string

//go:embed delete.lua
var deleteSource string

//go:embed tend.lua
var tendSource string

// scripts are all the scripts that a queue runs.
type scripts struct {
	write, read, catchup, ack, nack, extend, cancel *script.Script
	resize, pause, stats, browse, shape             *script.Script
	redrive, purge, delete, tend                    *script.Script
}

var standardScripts = assemble(script.New)

// assemble makes the scripts, each by a call with its name, its source and the
// fragments in front of it.
func assemble(build func(name, source string, fragments ...string) *script.Script) *scripts {
	opened := []string{versionFragment, openFragment}
	counted := slices.Concat(opened, []string{waitsFragment})
	moving := slices.Concat(counted, []string{moveFragment})
	due := slices.Concat(moving, []string{dueFragment})
	again := func(fragments []string) []string { return slices.Concat(fragments, []string{reqid.Fragment}) }
	return &scripts{
		write:   build("fairqueue.write", writeSource, again(counted)...).Numbered(),
		read:    build("fairqueue.read", readSource, again(counted)...).Numbered(),
		catchup: build("fairqueue.catchup", catchupSource, due...),
		ack:     build("fairqueue.ack", ackSource, again(opened[:1])...).Numbered(),
		nack:    build("fairqueue.nack", nackSource, again(moving)...).Numbered(),
		extend:  build("fairqueue.extend", extendSource, opened...),
		cancel:  build("fairqueue.cancel", cancelSource, again(moving)...).Numbered(),
		resize:  build("fairqueue.resize", resizeSource, opened...),
		pause:   build("fairqueue.pause", pauseSource, opened...),
		stats:   build("fairqueue.stats", statsSource, counted...),
		browse:  build("fairqueue.browse", browseSource, opened...),
		shape:   build("fairqueue.shape", shapeSource, opened...),
		redrive: build("fairqueue.redrive", redriveSource, again(moving)...).Numbered(),
		purge:   build("fairqueue.purge", purgeSource, opened...),
		delete:  build("fairqueue.delete", deleteSource),
		tend:    build("fairqueue.tend", tendSource, due...),
	}
}
