package main

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"time"
)

// record notes that a message was written, or handled. Times are the wall clock's, which all
// processes of the machine share.
type record struct {
	Number uint32
	At     time.Time // when the call or the handler began
	End    time.Time // when it ended; zero in a first record of a handler that takes long
}

// recordSize is the number in 4 bytes and each time in 8: nanoseconds since 1970, little endian.
const recordSize = 20

func (r record) append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, r.Number)
	for _, at := range []time.Time{r.At, r.End} {
		var nanos int64
		if !at.IsZero() {
			nanos = at.UnixNano()
		}
		to = binary.LittleEndian.AppendUint64(to, uint64(nanos))
	}
	return to
}

// count returns how many records a file has.
func count(path string) (int, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int(info.Size() / recordSize), nil
}

// read returns the records of a file.
func read(path string) ([]record, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	records := make([]record, 0, len(data)/recordSize)
	for ; len(data) >= recordSize; data = data[recordSize:] {
		r := record{Number: binary.LittleEndian.Uint32(data), At: time.Unix(0, int64(binary.LittleEndian.Uint64(data[4:])))}
		if end := int64(binary.LittleEndian.Uint64(data[12:])); end != 0 {
			r.End = time.Unix(0, end)
		}
		records = append(records, r)
	}
	return records, nil
}

// tally has the totals of the handlers' records.
type tally struct {
	first map[int]time.Time // when the first handler of a message began
	times map[int]int       // how many handlers of a message ended
	end   time.Time         // the last end of a handler
}

// tallyOf counts the messages from number from on.
func tallyOf(path string, from int) (tally, error) {
	records, err := read(path)
	t := tally{first: map[int]time.Time{}, times: map[int]int{}}
	for _, r := range records {
		number := int(r.Number)
		if number < from {
			continue
		}
		if first, ok := t.first[number]; !ok || r.At.Before(first) {
			t.first[number] = r.At
		}
		if !r.End.IsZero() {
			t.times[number]++
			if r.End.After(t.end) {
				t.end = r.End
			}
		}
	}
	return t, err
}

// doubled returns how many messages were handled to the end more than once.
func (t *tally) doubled() (n int) {
	for _, times := range t.times {
		if times > 1 {
			n++
		}
	}
	return n
}
