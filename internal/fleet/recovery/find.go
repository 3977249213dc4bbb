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
	"github.com/millrace/millrace/internal/redis/script"
)

// Servers is how members are asked.
type Servers interface {
	// Inspect asks a member for its report and its copy of the map. It changes nothing.
	Inspect(ctx context.Context, addr string) (Inspection, error)
}

// Inspection is a member's report as far as it concerns the map.
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

// answer is the answer of one server.
type answer struct {
	Inspection

	addr   string
	copied *directory.Map // Held, nil if there is none or it cannot be used
	ahead  time.Duration  // by how much its clock is ahead of this process's
	err    error
}

// partition returns the partition of a fleet that a server belongs to by its own word, -1 for
// none.
func (a answer) partition(fleet string) int {
	number, ours := strings.CutPrefix(a.Identity, fleet+"/")
	if id, err := strconv.Atoi(number); ours && err == nil && id >= 0 {
		return id
	}
	return -1
}

// Copy is a map that was found.
type Copy struct {
	From  string `json:"from"` // the address of a member, the name of a file in the archive, or TheDirectory
	Epoch int64  `json:"epoch"`

	m      *directory.Map
	origin origin
}

// origin is where a map comes from. Of several copies of one map the first kind is named.
type origin int

const (
	ofMember origin = iota
	ofDirectory
	ofArchive
	ofCaller
)

// search is one call of Find.
type search struct {
	cfg     Config
	fleet   string
	answers map[string]answer // by address
	present *directory.Map    // of the directory, nil if it has none
	copies  []Copy            // of the fleet, the newest first
	from    Copy              // the chosen one
}

// inOrder returns the answers, sorted by address.
func (s *search) inOrder() []answer {
	return slices.SortedFunc(maps.Values(s.answers), func(a, b answer) int { return strings.Compare(a.addr, b.addr) })
}

// Find collects the maps that there are, examines the members that they name, and returns
// the newest map. It changes nothing.
func Find(ctx context.Context, cfg Config) (*Found, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, 3*time.Second)
	s := &search{cfg: cfg, answers: map[string]answer{}}
	for _, m := range cfg.Maps {
		s.add("the memory of an agent", ofCaller, m)
	}
	unreadable := s.readArchive(ctx)
	if unreadable != nil && len(s.copies) == 0 && len(cfg.Members) == 0 {
		return nil, unreadable
	}
	s.ask(ctx, cfg.Members)
	if err := s.chooseFleet(); err != nil {
		return nil, err
	}
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
		f.doubt("What %s.", oneLine(unreadable))
	}
	return f, err
}

// add adds a map, unless it is one of another fleet.
func (s *search) add(from string, origin origin, m *directory.Map) {
	if s.fleet == "" || m.Fleet == s.fleet {
		s.copies = append(s.copies, Copy{from, m.Epoch, m, origin})
	}
}

// readArchive adds the maps in the archive, and returns why some cannot be read. A folder on
// the network may be silent.
func (s *search) readArchive(ctx context.Context) error {
	if s.cfg.Archive == "" {
		return nil
	}
	ctx, cancel := script.Within(ctx, s.cfg.Timeout)
	defer cancel()
	found, err := script.Prompt(ctx, func(context.Context) (map[string]*directory.Map, error) { return snapshot.Maps(s.cfg.Archive) })
	for name, m := range found {
		s.add(name, ofArchive, m)
	}
	return err
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
	s.add(TheDirectory, ofDirectory, s.present)
	return nil
}

// askNamed asks all members that the maps name, and those that their copies name.
func (s *search) askNamed(ctx context.Context) {
	for asked := -1; asked < len(s.answers); {
		asked = len(s.answers)
		var addrs []string
		for _, c := range s.copies {
			for _, p := range c.m.Partitions {
				for _, member := range p.Everyone() {
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
			s.add(a.addr, ofMember, a.copied)
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
		if a.copied, err = directory.Unpack(a.Held.Text); err != nil {
			a.err = cmp.Or(a.err, fmt.Errorf("its copy of the map: %w", err))
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
