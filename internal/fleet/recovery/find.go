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
)

// Config says where to look for copies.
type Config struct {
	// Option has the user, the password and the TLS settings for members. Its addresses are
	// not used. Defaults to none of them.
	Option rueidis.ClientOption

	// Members are addresses of members, HOST:PORT. One that holds a copy is enough; those
	// that joined after the copy are found only here. Defaults to none.
	Members []string

	// Archive is the folder of the snapshots. Defaults to none.
	Archive string
}

// askTimeout is how long a member may take to say what it has.
const askTimeout = 3 * time.Second

// answer is what one server said.
type answer struct {
	addr   string
	report members.Report
	held   members.Copy
	copied *directory.Map // held, nil if there is none or it cannot be used
	homes  []int          // partitions that a sample of its records of tags names
	ahead  time.Duration  // by how much its clock is ahead of this process's
	err    error
}

// Copy is a copy of the map that was found.
type Copy struct {
	From  string // the address of a member, or the name of a file in the archive
	Epoch int64
}

// search is one call of Find.
type search struct {
	pool     *members.Pool
	fleet    string
	answers  map[string]answer // by address
	archived map[string]*directory.Map
	newest   *directory.Map
	copies   []Copy
}

// Find collects copies of the map, examines the members that they name, and returns the map
// to store. It changes nothing.
func Find(ctx context.Context, cfg Config) (*Found, error) {
	s := &search{pool: members.New(cfg.Option, askTimeout/2), answers: map[string]answer{}}
	defer s.pool.Close()
	var unreadable error
	if cfg.Archive != "" {
		s.archived, unreadable = snapshot.Maps(cfg.Archive)
		if unreadable != nil && len(s.archived) == 0 && len(cfg.Members) == 0 {
			return nil, unreadable
		}
	}
	s.ask(ctx, cfg.Members)
	if err := s.chooseFleet(); err != nil {
		return nil, err
	}
	maps.DeleteFunc(s.archived, func(_ string, m *directory.Map) bool { return m.Fleet != s.fleet })
	for name, m := range s.archived {
		s.copies = append(s.copies, Copy{name, m.Epoch})
		s.take(m)
	}
	for asked := -1; asked < len(s.answers); {
		asked = len(s.answers)
		s.ask(ctx, s.named())
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := s.chooseCopy(); err != nil {
		return nil, err
	}
	f, err := s.judge()
	if err == nil && unreadable != nil {
		f.Unknown = append(f.Unknown, "What "+oneLine(unreadable)+".")
	}
	return f, err
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
	}
	for _, addr := range slices.Sorted(maps.Keys(s.answers)) {
		if m := s.answers[addr].copied; m != nil && m.Fleet == s.fleet {
			s.take(m)
		}
	}
}

func (s *search) askOne(ctx context.Context, addr string) answer {
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, errors.New("it does not answer"))
	defer cancel()
	a, err := members.Ask(ctx, s.pool, addr, func(ctx context.Context, c rueidis.Client) (a answer, err error) {
		if a.report, a.held, err = members.Inspect(ctx, c); err == nil && !a.report.Unread {
			a.homes, err = sample(ctx, c)
		}
		return a, err
	})
	a.addr, a.err, a.ahead = addr, err, time.Until(a.report.Clock)
	if a.held.Epoch != 0 {
		a.copied, err = directory.Unpack(a.held.Text)
		if err != nil && a.err == nil {
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

// take remembers a map if it is the newest one.
func (s *search) take(m *directory.Map) {
	if s.newest == nil || m.Epoch > s.newest.Epoch {
		s.newest = m
	}
}

// named returns the addresses in all copies.
func (s *search) named() (addrs []string) {
	all := slices.Collect(maps.Values(s.archived))
	for _, a := range s.answers {
		if a.copied != nil && a.copied.Fleet == s.fleet {
			all = append(all, a.copied)
		}
	}
	for _, m := range all {
		for _, p := range m.Partitions {
			for _, member := range everyone(p) {
				addrs = append(addrs, member.Addr)
			}
		}
	}
	return addrs
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

// chooseFleet finds out which fleet it is about: that of the members given, or else the only
// one in the archive.
func (s *search) chooseFleet() error {
	fleets := map[string]bool{}
	for _, a := range s.answers {
		if fleet, _, ok := identity(a.report); ok {
			fleets[fleet] = true
		}
	}
	if len(fleets) == 0 {
		for _, m := range s.archived {
			fleets[m.Fleet] = true
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

// chooseCopy sorts the copies, the newest first. It refuses if this build cannot read the
// newest one.
func (s *search) chooseCopy() error {
	var newer error
	for _, addr := range slices.Sorted(maps.Keys(s.answers)) {
		a := s.answers[addr]
		if fleet, _, _ := identity(a.report); fleet != s.fleet || a.held.Epoch == 0 {
			continue
		}
		if a.copied != nil {
			s.copies = append(s.copies, Copy{addr, a.copied.Epoch})
		} else if s.newest == nil || a.held.Epoch > s.newest.Epoch {
			newer = cmp.Or(newer, a.err)
		}
	}
	slices.SortStableFunc(s.copies, func(a, b Copy) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(a.From, b.From))
	})
	switch {
	case errors.Is(newer, directory.ErrVersion):
		return newer
	case s.newest == nil:
		return ErrNoCopy.Errorf("no copy of the map of fleet %s was found", s.fleet).Wrap(newer)
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
		if a.err == nil && !a.report.Clock.IsZero() {
			ahead = append(ahead, a.ahead)
		}
	}
	return members.Clock(ahead)
}
