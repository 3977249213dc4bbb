package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/script"
)

// Servers is how members are asked.
type Servers interface {
	// Inspect asks a member for what it is and has. It changes nothing.
	Inspect(ctx context.Context, addr string) (Inspection, error)
}

// Inspection is what a member says that concerns the map.
type Inspection struct {
	members.Report

	Held  members.Copy // the zero Copy if there is none
	Homes []int        // partitions that a sample of its records of tags names
}

// Inspect asks a server. One that refuses reads because it is fenced is opened for a moment.
func Inspect(ctx context.Context, c rueidis.Client) (i Inspection, err error) {
	if i.Report, i.Held, err = members.Inspect(ctx, c); err == nil && !i.Unread {
		i.Homes, err = sample(ctx, c)
	}
	return i, err
}

// Config says where to look for maps.
type Config struct {
	// Servers reaches members.
	Servers Servers

	// Members are addresses of members, HOST:PORT. One that holds a copy is enough; those
	// that joined after the copy are found only here. Defaults to none.
	Members []string

	// Archive is the folder of the snapshots. Defaults to none.
	Archive string

	// Maps are maps that the caller knows, all of one fleet. Defaults to none.
	Maps []*directory.Map

	// Directory has the map that may be old, or none.
	Directory *directory.Directory

	// From says where to take the map from in place of the newest: the address of a member,
	// the name of a file in the archive, or TheDirectory. Defaults to the newest.
	From string

	// Timeout is how long a member, and the archive, may take. Defaults to 3 seconds.
	Timeout time.Duration
}

// TheDirectory is where the directory's own map comes from.
const TheDirectory = "directory"

// memory is where the maps come from that the caller knows.
const memory = "the memory of an agent"

// answer is what one server said.
type answer struct {
	Inspection

	addr   string
	copied *directory.Map // Held, nil if there is none or it cannot be used
	ahead  time.Duration  // by how much its clock is ahead of this process's
	err    error
}

// Copy is a map that was found.
type Copy struct {
	From  string // the address of a member, the name of a file in the archive, or TheDirectory
	Epoch int64

	m *directory.Map
}

// search is one call of Find.
type search struct {
	cfg     Config
	fleet   string
	answers map[string]answer // by address
	present *directory.Map    // of the directory, nil if it has none
	copies  []Copy            // of the fleet, the newest first
	from    Copy              // the chosen one
	chosen  *directory.Map
}

// Find collects the maps that there are, examines the members that they name, and returns
// the newest map. It changes nothing.
func Find(ctx context.Context, cfg Config) (*Found, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, 3*time.Second)
	s := &search{cfg: cfg, answers: map[string]answer{}}
	for _, m := range cfg.Maps {
		s.copies = append(s.copies, Copy{memory, m.Epoch, m})
	}
	unreadable := s.readArchive(ctx)
	if unreadable != nil && len(s.copies) == 0 && len(cfg.Members) == 0 {
		return nil, unreadable
	}
	s.ask(ctx, cfg.Members)
	if err := s.chooseFleet(); err != nil {
		return nil, err
	}
	s.copies = slices.DeleteFunc(s.copies, func(c Copy) bool { return c.m.Fleet != s.fleet })
	s.askNamed(ctx)
	if err := s.askDirectory(ctx); err != nil {
		return nil, err
	}
	s.askNamed(ctx)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := s.choose(); err != nil {
		return nil, err
	}
	f, err := s.judge()
	if err == nil && unreadable != nil {
		f.Unknown = append(f.Unknown, "What "+oneLine(unreadable)+".")
	}
	return f, err
}

// readArchive adds the maps in the archive, and returns why some cannot be read. A folder on
// the network may be silent.
func (s *search) readArchive(ctx context.Context) error {
	if s.cfg.Archive == "" {
		return nil
	}
	ctx, cancel := script.Within(ctx, s.cfg.Timeout)
	defer cancel()
	type archived struct {
		maps       map[string]*directory.Map
		unreadable error
	}
	read, err := script.Prompt(ctx, func(context.Context) (a archived, _ error) {
		a.maps, a.unreadable = snapshot.Maps(s.cfg.Archive)
		return a, nil
	})
	for name, m := range read.maps {
		s.copies = append(s.copies, Copy{name, m.Epoch, m})
	}
	return cmp.Or(err, read.unreadable)
}

// askDirectory adds the map of the directory, if it has one. It is asked after the members:
// they hold only maps that the directory had before. An empty directory must be fit to keep
// a map, see directory.Directory.Verify.
func (s *search) askDirectory(ctx context.Context) (err error) {
	ctx, cancel := script.Within(ctx, max(2*time.Second, s.cfg.Timeout))
	defer cancel()
	s.present, err = s.cfg.Directory.Confirm(ctx, 0)
	switch {
	case errors.Is(err, directory.ErrNoFleet):
		return directory.Unreachable(ctx, s.cfg.Directory.Verify(ctx))
	case err != nil:
		return directory.Unreachable(ctx, err)
	case s.present.Fleet != s.fleet:
		return ErrExists.Errorf("the directory has another fleet, %s", s.present.Fleet)
	}
	s.copies = append(s.copies, Copy{TheDirectory, s.present.Epoch, s.present})
	return nil
}

// askNamed asks all members that the maps name, and those that their copies name.
func (s *search) askNamed(ctx context.Context) {
	for asked := -1; asked < len(s.answers); {
		asked = len(s.answers)
		var addrs []string
		for _, c := range s.copies {
			for _, p := range c.m.Partitions {
				for _, member := range everyone(p) {
					addrs = append(addrs, member.Addr)
				}
			}
		}
		s.ask(ctx, addrs)
	}
}

// ask asks servers that were not asked yet, all at the same time.
func (s *search) ask(ctx context.Context, addrs []string) {
	addrs = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(addrs))), func(addr string) bool {
		_, asked := s.answers[addr]
		return asked
	})
	answers := make([]answer, len(addrs))
	var asking sync.WaitGroup
	for i, addr := range addrs {
		asking.Go(func() { answers[i] = s.askOne(ctx, addr) })
	}
	asking.Wait()
	for _, a := range answers {
		s.answers[a.addr] = a
		if a.copied != nil {
			s.copies = append(s.copies, Copy{a.addr, a.copied.Epoch, a.copied})
		}
	}
}

func (s *search) askOne(ctx context.Context, addr string) answer {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, errors.New("it does not answer"))
	defer cancel()
	a := answer{addr: addr}
	a.Inspection, a.err = s.cfg.Servers.Inspect(ctx, addr)
	a.ahead = time.Until(a.Clock)
	if a.Held.Epoch != 0 {
		var err error
		if a.copied, err = directory.Unpack(a.Held.Text); err != nil && a.err == nil {
			a.err = fmt.Errorf("its copy of the map: %w", err)
		}
	}
	return a
}

// samplePages limits how many records of tags are read on a server.
const (
	samplePages = 10
	samplePage  = 500
)

// sample returns the partitions that some of a server's records name.
func sample(ctx context.Context, c rueidis.Client) (homes []int, err error) {
	var keys []string
	cursor, pages := uint64(0), 0
	for more := true; more && pages < samplePages; pages++ {
		page, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Match(members.RecordKey("*")).Count(samplePage).Build()).AsScanEntry()
		if err != nil {
			return nil, err
		}
		keys, cursor = append(keys, page.Elements...), page.Cursor
		more = cursor != 0
	}
	if len(keys) == 0 {
		return nil, nil
	}
	texts, err := c.Do(ctx, c.B().Mget().Key(keys...).Build()).AsStrSlice()
	for _, text := range texts {
		if record, err := members.ParseRecord(text); err == nil && !slices.Contains(homes, record.Home) {
			homes = append(homes, record.Home)
		}
	}
	return homes, err
}

// everyone returns the members of a partition, with those that join and leave it.
func everyone(p directory.Partition) []directory.Member {
	all := p.Members()
	if p.Task != nil && p.Task.Add != nil {
		all = append(all, *p.Task.Add)
	}
	if p.Leaving != nil {
		all = append(all, *p.Leaving)
	}
	return all
}

// chooseFleet finds out which fleet it is about: that of the maps or members given, or else
// the only one in the archive.
func (s *search) chooseFleet() error {
	fleets := map[string]bool{}
	for _, m := range s.cfg.Maps {
		fleets[m.Fleet] = true
	}
	if len(fleets) == 0 {
		for _, a := range s.answers {
			if fleet, _, ok := identity(a.Report); ok {
				fleets[fleet] = true
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
		for _, addr := range slices.Sorted(maps.Keys(s.answers)) {
			a := s.answers[addr]
			why = append(why, fmt.Errorf("%s: %w", addr, cmp.Or(a.err, errors.New("it is no member of a fleet"))))
		}
		return ErrNoCopy.Wrap(errors.Join(why...))
	case 1:
		s.fleet = names[0]
		return nil
	default:
		return ErrSeveralFleets.Errorf("copies of several fleets were found: %s", strings.Join(names, ", "))
	}
}

// choose sorts the maps, the newest first, and chooses that, or the one that Config.From
// names. It refuses if this build cannot read a newer one.
func (s *search) choose() error {
	s.copies = slices.DeleteFunc(s.copies, func(c Copy) bool { return c.m.Fleet != s.fleet })
	slices.SortStableFunc(s.copies, func(a, b Copy) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), strings.Compare(strings.Replace(a.From, memory, "~", 1), strings.Replace(b.From, memory, "~", 1)))
	})
	for _, c := range s.copies {
		if s.chosen == nil && (s.cfg.From == "" || s.cfg.From == c.From) {
			s.from, s.chosen = c, c.m
		}
	}
	var newer error
	for _, addr := range slices.Sorted(maps.Keys(s.answers)) {
		a := s.answers[addr]
		if fleet, _, _ := identity(a.Report); fleet == s.fleet && a.copied == nil && (s.chosen == nil || a.Held.Epoch > s.chosen.Epoch) {
			newer = cmp.Or(newer, a.err)
		}
	}
	switch {
	case s.chosen == nil && s.cfg.From != "":
		return ErrNoCopy.Errorf("%s has no copy of the map of fleet %s", s.cfg.From, s.fleet)
	case s.cfg.From != "":
		return nil
	case errors.Is(newer, directory.ErrVersion):
		return newer
	case s.chosen == nil:
		return ErrNoCopy.Errorf("no copy of the map of fleet %s was found", s.fleet).Wrap(newer)
	}
	return s.forked()
}

// forked returns ErrForked if there is another map with the epoch of the newest one, or of
// that from which it was made. Then the directory was changed after it had lost maps, and
// either may have what the other one lacks.
func (s *search) forked() error {
	id, parent := s.chosen.ID(), s.chosen.Parent
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

// identity reads what a server says it belongs to.
func identity(r members.Report) (fleet string, partition int, ok bool) {
	at := strings.LastIndex(r.Identity, "/")
	if at < 0 {
		return "", 0, false
	}
	partition, err := strconv.Atoi(r.Identity[at+1:])
	return r.Identity[:at], partition, err == nil
}

// oneLine returns the messages of an error on one line.
func oneLine(err error) string {
	if known, ok := errors.AsType[*millrace.Error](err); ok && known.Err == nil {
		return known.Message
	}
	return strings.Join(strings.Split(err.Error(), "\n"), "; ")
}

// clock returns the time by the clocks of most members that answered: one machine's clock
// may be wrong, and this one's.
func (s *search) clock() time.Time {
	var ahead []time.Duration
	for _, a := range s.answers {
		if a.err == nil && !a.Clock.IsZero() {
			ahead = append(ahead, a.ahead)
		}
	}
	return members.Clock(ahead)
}
