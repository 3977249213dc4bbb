package ick

import (
	_ "embed"

	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
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

// chunk is how many members one script call takes or moves at most. Larger
// requests are cut up.
const chunk = 1000

// scripts are all the scripts that an Ick runs.
type scripts struct {
	add, exchange, park, parked, unpark, stats, delete *script.Script
}

var standardScripts = &scripts{
	add:      script.New("ick.add", addSource),
	exchange: script.New("ick.exchange", exchangeSource, openFragment, reqid.Fragment),
	park:     script.New("ick.park", parkSource, openFragment),
	parked:   script.New("ick.parked", parkedSource, openFragment),
	unpark:   script.New("ick.unpark", unparkSource, openFragment),
	stats:    script.New("ick.stats", statsSource, openFragment),
	delete:   script.New("ick.delete", deleteSource),
}
