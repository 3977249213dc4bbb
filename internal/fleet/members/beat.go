package members

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Beat says how new the data of a member is. The leading agent writes one more into the master of
// each partition every second, and it is replicated, saved and loaded with the data. So a member
// that has a beat has all that was written before it. No clock is part of it: while no agent
// writes beats, no data grows old.
type Beat struct {
	Epoch int64 // of the partition when it was written, or of the promotion of its master
	Count int64 // grows by one a second, over all masters and agents
}

// BeatInterval is the interval of beats.
const BeatInterval = time.Second

// Less reports whether a beat is older than another one. A master that was replaced, and whose
// agent did not know that, may have gone on counting: so the epoch decides first.
func (b Beat) Less(than Beat) bool {
	return b.Epoch < than.Epoch || b.Epoch == than.Epoch && b.Count < than.Count
}

// Newer returns the newer one of two beats.
func (b Beat) Newer(or Beat) Beat {
	if b.Less(or) {
		return or
	}
	return b
}

// Behind returns by how many beats one is older than the newest: about as many seconds.
func (b Beat) Behind(newest Beat) int64 {
	if !b.Less(newest) {
		return 0
	}
	return max(0, newest.Count-b.Count)
}

// Age describes data that is so many beats behind.
func Age(behind int64) string {
	age := time.Duration(behind) * BeatInterval
	switch {
	case behind == 1:
		return "1 beat, about 1s"
	case age < time.Hour:
		return fmt.Sprintf("%d beats, about %v", behind, age)
	default:
		return fmt.Sprintf("%d beats, about %.1f hours", behind, age.Hours())
	}
}

// String returns the stored form: the epoch, a space, and the count.
func (b Beat) String() string {
	return strconv.FormatInt(b.Epoch, 10) + " " + strconv.FormatInt(b.Count, 10)
}

// ParseBeat reads the stored form. It returns the zero Beat, which is older than all others, for
// anything else.
func ParseBeat(stored string) Beat {
	epoch, count, _ := strings.Cut(stored, " ")
	e, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return Beat{}
	}
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return Beat{}
	}
	return Beat{e, n}
}

// MarshalText returns the stored form.
func (b Beat) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads the stored form.
func (b *Beat) UnmarshalText(text []byte) error {
	*b = ParseBeat(string(text))
	return nil
}

// Write writes the beat into the master of a partition unless that has a newer one, or was
// restarted since it was in that run. It returns the one that it has then. A full server takes it.
func (b Beat) Write(ctx context.Context, c rueidis.Client, fleet string, partition int, run string) (Beat, error) {
	write := c.B().Eval().Script(Scripts.Script("beat").Source()).Numkeys(1).Key(Base).
		Arg(fleet, strconv.Itoa(partition), strconv.FormatInt(b.Epoch, 10), strconv.FormatInt(b.Count, 10), run).Build()
	reply, err := c.Do(ctx, write).AsStrSlice()
	switch {
	case err != nil:
		return Beat{}, err
	case len(reply) != 2 || reply[0] != "beat":
		return Beat{}, ErrUnknownServer.Errorf("partition %d of this fleet is expected there in run %s: %q", partition, run, reply)
	}
	return ParseBeat(reply[1]), nil
}
