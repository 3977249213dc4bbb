package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// chooseFleet finds out which fleet it is about, and forgets the maps of others: that of the maps
// or members given, or else the only one in the archive.
func (s *search) chooseFleet() error {
	fleets := map[string]bool{}
	for _, m := range s.cfg.Maps {
		fleets[m.Fleet] = true
	}
	if len(fleets) == 0 {
		for _, a := range s.answers {
			if at := strings.LastIndexByte(a.Identity, '/'); at > 0 {
				fleets[a.Identity[:at]] = true
			}
		}
	}
	if len(fleets) == 0 {
		for _, c := range s.copies {
			fleets[c.m.Fleet] = true
		}
	}
	switch names := slices.Sorted(maps.Keys(fleets)); len(names) {
	case 0:
		var why []error
		for _, a := range s.inOrder() {
			why = append(why, fmt.Errorf("%s: %w", a.addr, cmp.Or(a.err, errors.New("it is no member of a fleet"))))
		}
		return ErrNoCopy.Wrap(errors.Join(why...))
	case 1:
		s.fleet = names[0]
		s.copies = slices.DeleteFunc(s.copies, func(c Copy) bool { return c.m.Fleet != s.fleet })
		return nil
	default:
		return ErrSeveralFleets.Errorf("copies of several fleets were found: %s", strings.Join(names, ", "))
	}
}

// choose sorts the maps, the newest first, and chooses that, or the one that Config.From
// names. It refuses if this build cannot read a newer one.
func (s *search) choose() error {
	slices.SortFunc(s.copies, func(a, b Copy) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(a.origin, b.origin), strings.Compare(a.From, b.From))
	})
	if s.cfg.From != "" {
		at := slices.IndexFunc(s.copies, func(c Copy) bool { return c.From == s.cfg.From })
		if at < 0 {
			return ErrNoCopy.Errorf("%s has no copy of the map of fleet %s", s.cfg.From, s.fleet)
		}
		s.from = s.copies[at]
		return nil
	}
	if len(s.copies) > 0 {
		s.from = s.copies[0]
	}
	var unreadable error // why the first copy cannot be read that is newer than all others
	for _, a := range s.inOrder() {
		if a.partition(s.fleet) >= 0 && (len(s.copies) == 0 || a.Held.Epoch > s.from.Epoch) {
			unreadable = cmp.Or(unreadable, a.err)
		}
	}
	switch {
	case errors.Is(unreadable, directory.ErrVersion):
		return unreadable
	case len(s.copies) == 0:
		return ErrNoCopy.Errorf("no copy of the map of fleet %s was found", s.fleet).Wrap(unreadable)
	}
	return s.forked()
}

// forked returns ErrForked if there is another map with the epoch of the newest one, or of
// that from which it was made. Then the directory was changed after it had lost maps, and
// either may have changes that the other one lacks.
func (s *search) forked() error {
	id, parent := s.from.m.ID(), s.from.m.Parent
	for _, c := range s.copies {
		if c.Epoch != id.Epoch && c.Epoch != parent.Epoch {
			continue
		}
		if other := c.m.ID(); other != id && other != parent {
			return ErrForked.Errorf("the map of epoch %d of %s and that of epoch %d of %s have different histories", id.Epoch, s.from.From, c.Epoch, c.From)
		}
	}
	return nil
}
