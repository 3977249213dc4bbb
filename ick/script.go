package ick

import (
	_ "embed"

	"github.com/millrace/millrace/internal/reqid"
	script "github.com/millrace/millrace/internal/oldscript"
)

//go:embed open.lua
var openFragment string

//go:embed add.lua
var addSource string

//go:embed exchange.lua
var exchangeSource string

//go:embed park.lua
var parkSource string

//go:embed parked.lua
var parkedSource string

//go:embed unpark.lua
var unparkSource string

//go:embed stats.lua
var statsSource string

//go:embed delete.lua
var deleteSource string

//go:embed roll.lua
var rollFragment string

//go:embed channel.lua
var channelSource string

//go:embed attend.lua
var attendSource string

//go:embed leave.lua
var leaveSource string

//go:embed resize.lua
var resizeSource string

//go:embed disband.lua
var disbandSource string

//go:embed retire.lua
var retireSource string

//go:embed reopen.lua
var reopenSource string

// chunk is how many members one script call takes or moves at most. Larger
// requests are cut up.
const chunk = 1000

// scripts are all the scripts that an Ick runs.
type scripts struct {
	add, exchange, park, parked, unpark, stats, delete, retire, reopen *script.Script
}

var standardScripts = &scripts{
	add:      script.New("ick.add", addSource),
	exchange: script.New("ick.exchange", exchangeSource, openFragment, reqid.Fragment),
	park:     script.New("ick.park", parkSource, openFragment),
	parked:   script.New("ick.parked", parkedSource, openFragment),
	unpark:   script.New("ick.unpark", unparkSource, openFragment),
	stats:    script.New("ick.stats", statsSource, openFragment),
	delete:   script.New("ick.delete", deleteSource),
	retire:   script.New("ick.retire", retireSource),
	reopen:   script.New("ick.reopen", reopenSource),
}

// channelScripts are all the scripts that run on a channel's own keys.
type channelScripts struct {
	channel, attend, leave, resize, disband *script.Script
}

var standardChannelScripts = &channelScripts{
	channel: script.New("ick.channel", channelSource, rollFragment),
	attend:  script.New("ick.attend", attendSource, rollFragment),
	leave:   script.New("ick.leave", leaveSource, rollFragment),
	resize:  script.New("ick.resize", resizeSource, rollFragment),
	disband: script.New("ick.disband", disbandSource),
}
