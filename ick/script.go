package ick

import (
	"embed"
	"math"
	"strconv"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// chunk is how many members one script call takes or moves at most. Larger
// requests are cut up.
const chunk = 1000

// maxMember is the longest member in bytes. A producer in another language may add
// longer ones, which are worked off like all others.
const maxMember = 4096

//go:embed *.lua
var folder embed.FS

//go:embed channel/*.lua
var channelFolder embed.FS

var (
	// library holds the scripts of Icks.
	library = script.Load(folder, "K/ick/{K}/")

	// channelLibrary holds the scripts that run on a channel's own keys.
	channelLibrary = script.Load(channelFolder, "K:")
)

// checkMembers refuses what is longer than a member may be.
func checkMembers(members ...string) error {
	for _, m := range members {
		if len(m) > maxMember {
			return millrace.ErrTooLarge.Errorf("a member has %d bytes, more than %d", len(m), maxMember)
		}
	}
	return nil
}

// score reads a score: 0 for the empty text that stands for none.
func score(r *script.Reply) float64 {
	text := r.Text()
	if text == "" {
		return 0
	}
	score, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return score
}

// entries reads a list of members and scores.
func entries(r *script.Reply) []Entry {
	list := r.List()
	found := make([]Entry, 0, list.Len()/2)
	for list.More() {
		member := list.Text()
		score := score(list)
		found = append(found, Entry{Member: member, Score: score})
	}
	r.Join(list)
	return found
}
