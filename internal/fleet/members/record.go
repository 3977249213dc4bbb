package members

import (
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/redis/script"
)

// The keys that each member has, besides replicas.Key(Base).
const (
	Base        = "mr:fleet"      // the prefix of the fleet's own keys
	IdentityKey = Base + ":id"    // which partition of which fleet the server belongs to, see Identity
	FloorKey    = Base + ":floor" // the epoch below which a map is too old to place a tag by
	TagsKey     = Base + ":tags"  // the number of tags whose data is here
	MapKey      = Base + ":map"   // a copy of the fleet's map, see Copy
	BeatKey     = Base + ":beat"  // how new the data is, see Beat

	RestoredKey = Base + ":restored" // the repair since the partition got older data, see package restored
)

// Identity returns the identity of the members of a partition.
func Identity(fleet string, partition int) string { return fleet + "/" + strconv.Itoa(partition) }

// RecordKey returns the key of the record of a tag.
func RecordKey(tag string) string { return Base + ":{" + tag + "}" }

// RecordedTag returns the tag whose record a key is.
func RecordedTag(key string) (tag string, ok bool) {
	if tag, ok = strings.CutPrefix(key, Base+":{"); !ok {
		return "", false
	}
	return strings.CutSuffix(tag, "}")
}

// Record is a partition's record of a tag: "3", or with a mark "3 +to.7.RUN".
type Record struct {
	Home  int    // the partition that has the tag
	Mark  Mark   // the operation on the tag
	Token string // of the call that marked it
}

// Mark names the operation on a tag.
type Mark string

// Marks.
const (
	Unmarked   Mark = ""
	Forgetting Mark = "-" // it is about to be forgotten, unless a client writes for it
	Leaving    Mark = "+" // it is about to be moved: clients do not cache its place
	Moving     Mark = "!" // it is being moved: writers wait
)

// String returns the text that is stored.
func (r Record) String() string {
	if r.Mark == Unmarked {
		return strconv.Itoa(r.Home)
	}
	return fmt.Sprintf("%d %s%s", r.Home, r.Mark, r.Token)
}

// ParseRecord reads a stored record.
func ParseRecord(text string) (r Record, err error) {
	home, rest, marked := strings.Cut(text, " ")
	if r.Home, err = strconv.Atoi(home); err != nil || r.Home < 0 || marked && rest == "" {
		return Record{}, fmt.Errorf("%q is not a record of a tag", text)
	}
	if marked {
		r.Mark, r.Token = Mark(rest[:1]), rest[1:]
		if r.Mark != Forgetting && r.Mark != Leaving && r.Mark != Moving {
			return Record{}, fmt.Errorf("%q is not a record of a tag", text)
		}
	}
	return r, nil
}

//go:embed *.lua
var folder embed.FS

// Scripts are the scripts that members run to look up and place tags.
var Scripts = script.Load(folder, "K:")
