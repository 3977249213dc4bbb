package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/fleet/members"
)

// File is a snapshot with the facts that it holds about itself.
type File struct {
	Path      string
	Fleet     string
	Partition int
	Saved     time.Time    // by the clock of its server
	Beat      members.Beat // how new its data is; zero if no agent had written one
	Bytes     int64
}

// Examine reads a file to its end, and describes it. The error is ErrFile unless it is a complete
// snapshot of a member of a fleet. It does not load the data: the format of values changes with the
// versions of servers, and that of two short texts never did.
func Examine(ctx context.Context, path string) (File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return File{}, ErrFile.Errorf("%s cannot be read", path).Wrap(err)
	}
	f := File{Path: path, Bytes: info.Size()}
	var found finder
	if err := checkRDB(ctx, path, f.Bytes, &found); err != nil {
		if ctx.Err() != nil {
			return f, context.Cause(ctx)
		}
		return f, ErrFile.Errorf("%s is not a complete snapshot", path).Wrap(err)
	}
	identities := found.values[identity]
	if len(identities) != 1 {
		return f, ErrFile.Errorf("%s does not say of which partition of a fleet it is", path)
	}
	at := strings.LastIndexByte(identities[0], '/')
	if f.Partition, err = strconv.Atoi(identities[0][at+1:]); at < 0 || err != nil {
		return f, ErrFile.Errorf("%s is of %q, which is not a partition", path, identities[0])
	}
	f.Fleet = identities[0][:at]
	if beats := found.values[beat]; len(beats) == 1 {
		f.Beat = members.ParseBeat(beats[0])
	}
	f.Saved = info.ModTime()
	if times := found.values[saved]; len(times) > 0 { // the first one is that of the file
		if n, err := strconv.ParseInt(times[0], 10, 64); err == nil {
			f.Saved = time.Unix(n, 0)
		}
	}
	return f, nil
}

// marks stand before the values that finder looks for.
var marks = [...][]byte{
	identity: append([]byte{typeString, byte(len(members.IdentityKey))}, members.IdentityKey...),
	beat:     append([]byte{typeString, byte(len(members.BeatKey))}, members.BeatKey...),
	saved:    append([]byte{typeAux, byte(len("ctime"))}, "ctime"...),
}

const (
	identity = iota
	beat
	saved
)

const (
	typeString = 0x00 // before a key of which the value is a string
	typeAux    = 0xfa // before a field that describes the file
)

// finder collects the values behind marks from a snapshot that is written to it. If an application has
// stored a text with a mark, there are several.
type finder struct {
	values [len(marks)][]string
	rest   []byte // the end of the bytes written: a value may go on in the next part
}

// longest is at least how long a mark and its value are.
const longest = 100

// Write implements io.Writer.
func (f *finder) Write(text []byte) (int, error) {
	f.rest = append(f.rest, text...)
	for i, mark := range marks {
		for at := bytes.Index(f.rest, mark); at >= 0; {
			at += len(mark)
			if value, ok := shortValue(f.rest[at:]); ok && !slices.Contains(f.values[i], value) {
				f.values[i] = append(f.values[i], value)
			}
			next := bytes.Index(f.rest[at:], mark)
			if next < 0 {
				break
			}
			at += next
		}
	}
	f.rest = append(f.rest[:0], f.rest[max(0, len(f.rest)-longest):]...)
	return len(text), nil
}

// shortValue reads a string of at most 63 bytes, or a number.
func shortValue(text []byte) (value string, ok bool) {
	if len(text) < 5 {
		return "", false
	}
	switch n := int(text[0]); {
	case n < 64 && len(text) > n:
		return string(text[1 : 1+n]), true
	case n == 0xc2: // a number of 32 bits
		return strconv.Itoa(int(int32(binary.LittleEndian.Uint32(text[1:])))), true
	default:
		return "", false
	}
}
