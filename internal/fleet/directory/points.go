package directory

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/millrace/millrace/ring"
)

// Points are the points of a ring as a map stores them: with their positions in
// 16 hexadecimal digits, because not every language has numbers of 64 bits.
type Points []ring.Point

type pointJSON struct {
	At         string `json:"at"`
	Partition  int    `json:"partition"`
	Generation int    `json:"generation"`
}

// MarshalJSON writes positions in hexadecimal.
func (p Points) MarshalJSON() ([]byte, error) {
	stored := make([]pointJSON, len(p))
	for i, point := range p {
		stored[i] = pointJSON{fmt.Sprintf("%016x", point.Position), point.Partition, point.Generation}
	}
	return json.Marshal(stored)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Points) UnmarshalJSON(text []byte) error {
	var stored []pointJSON
	if err := json.Unmarshal(text, &stored); err != nil {
		return err
	}
	*p = make(Points, len(stored))
	for i, point := range stored {
		at, err := strconv.ParseUint(point.At, 16, 64)
		if err != nil {
			return fmt.Errorf("the position %q is no hexadecimal number of 64 bits", point.At)
		}
		(*p)[i] = ring.Point{Position: at, Partition: point.Partition, Generation: point.Generation}
	}
	return nil
}
