package fairqueue

import (
	_ "embed"

	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
)

//go:embed open.lua
var openFragment string

//go:embed move.lua
var moveFragment string

//go:embed due.lua
var dueFragment string

//go:embed write.lua
var writeSource string

//go:embed read.lua
var readSource string

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
	write, read, ack, nack, extend, cancel *script.Script
	resize, pause, stats                   *script.Script
	redrive, purge, delete, tend           *script.Script
}

var standardScripts = &scripts{
	write:   script.New("fairqueue.write", writeSource, openFragment, moveFragment, reqid.Fragment).Numbered(),
	read:    script.New("fairqueue.read", readSource, openFragment, moveFragment, dueFragment, reqid.Fragment).Numbered(),
	ack:     script.New("fairqueue.ack", ackSource, openFragment, moveFragment, reqid.Fragment).Numbered(),
	nack:    script.New("fairqueue.nack", nackSource, openFragment, moveFragment, reqid.Fragment).Numbered(),
	extend:  script.New("fairqueue.extend", extendSource, openFragment),
	cancel:  script.New("fairqueue.cancel", cancelSource, openFragment, moveFragment, reqid.Fragment).Numbered(),
	resize:  script.New("fairqueue.resize", resizeSource, openFragment),
	pause:   script.New("fairqueue.pause", pauseSource, openFragment),
	stats:   script.New("fairqueue.stats", statsSource, openFragment),
	redrive: script.New("fairqueue.redrive", redriveSource, openFragment, moveFragment, reqid.Fragment).Numbered(),
	purge:   script.New("fairqueue.purge", purgeSource, openFragment),
	delete:  script.New("fairqueue.delete", deleteSource),
	tend:    script.New("fairqueue.tend", tendSource, openFragment, moveFragment, dueFragment),
}
