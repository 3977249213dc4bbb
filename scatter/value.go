package scatter

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// MaxBody is the longest body of a list entry, in bytes.
const MaxBody = 1 << 20

// magic begins what gzip has written.
const magic = "\x1f\x8b"

// pack returns what a body is in an entry: the body itself, or compressed where that
// is asked for and makes it shorter. A body that looks compressed always is, so that
// it comes back as it was.
func pack(body []byte, compress bool) string {
	looks := bytes.HasPrefix(body, []byte(magic))
	if !compress && !looks {
		return string(body)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(body) //nolint:errcheck // a Buffer takes everything
	w.Close()     //nolint:errcheck // the same
	if looks || out.Len() < len(body) {
		return out.String()
	}
	return string(body)
}

// unpack returns the body that an entry has.
func unpack(packed string) ([]byte, error) {
	if !strings.HasPrefix(packed, magic) {
		return []byte(packed), nil
	}
	r, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r, MaxBody+1))
	if err == nil && len(body) > MaxBody {
		err = fmt.Errorf("the body is longer than %d bytes", MaxBody)
	}
	return body, err
}

// parseEntry takes an entry of a list apart: the server's clock in Unix milliseconds
// when it was written, a space, and the body, which may be compressed.
func parseEntry(entry string) (time.Time, []byte, error) {
	clock, packed, found := strings.Cut(entry, " ")
	at, err := strconv.ParseInt(clock, 10, 64)
	if !found || err != nil {
		return time.Time{}, nil, fmt.Errorf("%.40q is no entry: it does not begin with milliseconds and a space", entry)
	}
	body, err := unpack(packed)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("the entry of %s: %w", time.UnixMilli(at).UTC().Format(time.RFC3339Nano), err)
	}
	return time.UnixMilli(at), body, nil
}
