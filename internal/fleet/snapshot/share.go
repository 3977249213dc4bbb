package snapshot

import "fmt"

// Share is one of several parts of a fleet's partitions: those whose number leaves Part-1
// when it is divided by Parts. Added partitions fall into shares by themselves, and one with
// a lower number never changes its share. The zero value is all partitions.
type Share struct{ Part, Parts int }

// Has reports whether a partition is in the share.
func (s Share) Has(id int) bool { return s.Parts <= 1 || id%s.Parts == s.Part-1 }

// String returns the form PART/PARTS.
func (s Share) String() string {
	if s.Parts == 0 {
		return "1/1"
	}
	return fmt.Sprintf("%d/%d", s.Part, s.Parts)
}

// UnmarshalText reads the form PART/PARTS, such as 2/3.
func (s *Share) UnmarshalText(text []byte) error {
	var read Share
	if n, err := fmt.Sscanf(string(text), "%d/%d", &read.Part, &read.Parts); n != 2 || err != nil || read.Part < 1 || read.Part > read.Parts || read.String() != string(text) {
		return fmt.Errorf("%q is no share: the second of three is 2/3", text)
	}
	*s = read
	return nil
}
