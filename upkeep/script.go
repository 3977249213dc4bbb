package upkeep

import (
	_ "embed"

	"github.com/millrace/millrace/internal/reqid"
	script "github.com/millrace/millrace/internal/oldscript"
)

//go:embed open.lua
var openFragment string

//go:embed publish.lua
var publishSource string

//go:embed totals.lua
var totalsSource string

var (
	publishScript = script.New("upkeep.publish", publishSource, openFragment, reqid.Fragment)
	totalsScript  = script.New("upkeep.totals", totalsSource, openFragment)
)

// baseKey is the hash that is the totals: version, and a field for each job. All
// keys lie in one Redis Cluster slot.
const baseKey = "mr:steal:{totals}"

// keys returns all keys of totals with that base key.
func keys(base string) []string {
	return []string{
		base,
		base + ":processes", // sorted set: process -> until when it counts as running
		base + ":req",       // hash: answers by request id, see package reqid
		base + ":req_before",
	}
}
