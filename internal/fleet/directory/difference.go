package directory

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// difference turns one map into the next. A map of 320 members has some 60 kB, and a
// failover changes some 200 bytes of it, which go to each of a thousand clients.
type difference struct {
	From       string      `json:"from"` // the sum of the map that it is for
	Epoch      int64       `json:"epoch"`
	Floor      int64       `json:"floor"`
	Parent     ID          `json:"parent,omitzero"`
	Settings   *Settings   `json:"settings,omitempty"` // if they changed
	Partitions []Partition `json:"partitions,omitempty"`
	Points     *Points     `json:"points,omitempty"` // all of them, if any changed
	Spares     *[]Member   `json:"spares,omitempty"` // as for points
	Sum        string      `json:"sum"`              // of the map that it makes, as the directory holds it
}

// held is a map with the sum of its stored form, and the number of the change that made it. An
// epoch can be used twice if the directory loses a map; a sum cannot.
type held struct {
	*Map

	sum    string
	change int64
}

// Sum returns the beginning of the SHA-256 of a text, such as the stored form of a map.
func Sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// differ returns the difference from old to next.
func differ(old, next held) *difference {
	d := &difference{From: old.sum, Sum: next.sum, Epoch: next.Epoch, Floor: next.Floor, Parent: next.Parent}
	if old.Settings != next.Settings {
		d.Settings = &next.Settings
	}
	for i, p := range next.Partitions {
		if i >= len(old.Partitions) || !reflect.DeepEqual(old.Partitions[i], p) {
			d.Partitions = append(d.Partitions, p)
		}
	}
	if !reflect.DeepEqual(old.Points, next.Points) {
		d.Points = &next.Points
	}
	if !slices.Equal(old.Spares, next.Spares) {
		d.Spares = &next.Spares
	}
	return d
}

// of applies the difference. The caller checks the result. The error is ErrMap.
func (d *difference) of(old held) (held, error) {
	if d.From != old.sum {
		return held{}, ErrMap.Wrap(fmt.Errorf("a difference is not for the map of epoch %d that is there", old.Epoch))
	}
	next := old.Clone()
	next.Epoch, next.Floor, next.Parent = d.Epoch, d.Floor, d.Parent
	if d.Settings != nil {
		next.Settings = *d.Settings
	}
	if d.Points != nil {
		next.Points = *d.Points
	}
	if d.Spares != nil {
		next.Spares = *d.Spares
	}
	for _, p := range d.Partitions {
		switch n := len(next.Partitions); {
		case p.ID < n:
			next.Partitions[p.ID] = p
		case p.ID == n:
			next.Partitions = append(next.Partitions, p)
		default:
			return held{}, ErrMap.Wrap(fmt.Errorf("a difference has partition %d, and the map %d partitions", p.ID, n))
		}
	}
	return held{next, d.Sum, old.change + 1}, nil
}

// pack returns the stored form of a map, or of a difference: compressed JSON.
func pack(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	w, ok := packers.Get().(*gzip.Writer)
	if !ok { // the pool is empty
		if w, err = gzip.NewWriterLevel(nil, gzip.BestCompression); err != nil {
			return "", err
		}
	}
	defer packers.Put(w)
	var b bytes.Buffer
	w.Reset(&b)
	if _, err = w.Write(text); err == nil {
		err = w.Close()
	}
	return b.String(), err
}

// Pack returns the form in which members and archives keep a copy of the map. It has no
// passwords.
func (m *Map) Pack() (string, error) { return pack(m) }

// Unpack reads the form of Pack. The error is ErrMap or ErrVersion.
func Unpack(text string) (*Map, error) {
	plain, err := unpack(text)
	if err != nil {
		return nil, ErrMap.Wrap(err)
	}
	return Parse(plain)
}

// unpack returns the JSON. Plain JSON is accepted, so that a map can be stored by hand.
func unpack(text string) ([]byte, error) {
	if len(text) > 0 && text[0] == '{' {
		return []byte(text), nil
	}
	r, ok := unpackers.Get().(*gzip.Reader)
	if !ok { // the pool is empty
		r = new(gzip.Reader)
	}
	defer unpackers.Put(r)
	if err := r.Reset(strings.NewReader(text)); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, mapLimit))
}

// packers and unpackers pool writers and readers: one takes 800 and 40 kB.
var packers, unpackers sync.Pool

// mapLimit is more than any map has.
const mapLimit = 64 << 20
