package members

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Copy is a copy of the fleet's map that a member holds for the case that the directory
// loses its data.
type Copy struct {
	Epoch int64
	Text  string // as directory.Pack makes it
}

// Keep stores a copy of the map on the master of a partition unless there is one that is
// as new, and returns the epoch of the copy that is there then. A full server takes it.
func (m Copy) Keep(ctx context.Context, c rueidis.Client, fleet string, partition int) (epoch int64, err error) {
	keep := c.B().Eval().Script(Scripts.Script("keep").Source()).Numkeys(1).Key(Base).
		Arg(fleet, strconv.Itoa(partition), strconv.FormatInt(m.Epoch, 10), m.Text).Build()
	reply, err := c.Do(ctx, keep).AsStrSlice()
	switch {
	case err != nil:
		return 0, err
	case len(reply) != 2 || reply[0] != "kept":
		return 0, ErrUnknownServer.Errorf("partition %d of this fleet is expected there, and the server has the identity %q", partition, reply[1:])
	}
	return strconv.ParseInt(reply[1], 10, 64)
}

// Inspect returns the report of a server, and the copy of the map that it holds; the zero
// Copy if there is none. It changes nothing: a server that refuses reads because it is
// fenced is opened for the moment that it takes to read these keys.
func Inspect(ctx context.Context, c rueidis.Client) (r Report, held Copy, err error) {
	if r, err = Examine(ctx, c); err != nil || r.Loading {
		return r, held, err
	}
	read := func() rueidis.Completed {
		return c.B().Mget().Key(IdentityKey, FloorKey, TagsKey, BeatKey, MapKey).Build()
	}
	var reply rueidis.RedisResult
	if r.Unread {
		reply, err = ReadFenced(ctx, c, read())
	} else {
		reply = c.Do(ctx, read())
	}
	if err == nil {
		err = r.readKeys(reply)
	}
	if err != nil {
		return r, held, err
	}
	values, err := reply.ToArray()
	if err == nil {
		text, _ := values[len(values)-1].ToString()
		held = ParseCopy(text)
	}
	return r, held, err
}

// String returns the stored form of a copy: its epoch, a space, and the map.
func (m Copy) String() string { return strconv.FormatInt(m.Epoch, 10) + " " + m.Text }

// ParseCopy reads the stored form. It returns the zero Copy for anything else.
func ParseCopy(stored string) Copy {
	epoch, text, _ := strings.Cut(stored, " ")
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return Copy{}
	}
	return Copy{n, text}
}
