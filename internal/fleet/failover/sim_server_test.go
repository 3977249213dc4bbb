package failover_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// server is a redis-server as far as failover knows one: a log of writes, a place in
// it, the ids of its histories, and the master that it follows.
type server struct {
	host

	w         *world
	partition int

	data
	master bool    // takes writes
	need   int     // min-replicas-to-write
	target *server // the master that it follows; nil if that is a dead address
	pass   string  // the run in which that lets it connect
	serves bool    // may be read while it is not linked
	link   link
	forgot bool   // a copy was begun: it cannot go on where it was
	before string // the history that this one went on from,
	branch int64  // and where
	oldest int64  // the offset from which it keeps the replicated writes

	copied   data      // the data that it is being sent as a whole,
	copyEnds time.Time // and until when
	lag      time.Duration
	disk     data // the data that it would read after a restart from a snapshot
	gone     bool // it never comes back
	copyless bool // it takes no copies of the map
	planned  bool // it was shut down by an agent, and
	saved    bool // has saved its data
	died     time.Duration
	rose     time.Duration
	amnesic  bool          // it was restarted, and has less than its master had then
	loose    bool          // it was restarted without its fence, and is not fenced yet
	loads    *data         // the file that it is loading, nil for none,
	began    time.Duration // and since when
	histories,
	runs,
	noise int
}

// data is the data of a server.
type data struct {
	identity string
	log      []entry
	history  string
	offset   int64
	floor    int64          // the last one in the log
	beat     members.Beat   // the last one in the log
	held     *directory.Map // the newest one in the log
}

// entry is a write, or something else that takes up room in the log.
type entry struct {
	id    int // 0 if it is not needed
	size  int64
	at    time.Duration
	floor int64          // 0 if it says nothing of that
	beat  members.Beat   // zero if it says nothing of that
	held  *directory.Map // a copy of the map; nil for none
}

type link int

const (
	apart link = iota
	copying
	linked
)

// Replies that are errors.
var (
	errReadOnly   = errors.New("READONLY")
	errNoReplicas = errors.New("NOREPLICAS")
)

// run is another one after each start.
func (s *server) run() string {
	if s.w.sabotage.sameRun {
		return s.name
	}
	return fmt.Sprintf("%s.%d", s.name, s.runs)
}

func (s *server) newHistory() string {
	s.histories++
	return fmt.Sprintf("%s#%d", s.name, s.histories)
}

// replicas are those that are linked to it.
func (s *server) replicas() []*server {
	var found []*server
	for _, r := range s.w.servers {
		if r.target == s && r.link != apart {
			found = append(found, r)
		}
	}
	return found
}

// leave ends the connections of its replicas.
func (s *server) leave() {
	for _, r := range s.replicas() {
		r.link = apart
	}
}

// write is a client's.
func (s *server) write(id int) error {
	if err := s.refuses(); err != nil {
		return err
	}
	s.append(entry{id: id, size: 40 + s.w.draw(&s.host, &s.host, 80)})
	return nil
}

// keep is an agent's: it takes a copy of the map unless there is one as new.
func (s *server) keep(m *directory.Map) error {
	if err := s.refuses(); err != nil || s.copyless {
		return err
	}
	if s.held == nil || s.held.Epoch < m.Epoch {
		s.append(entry{size: 900, held: m})
	}
	return nil
}

// refuses returns the reason why a server takes no writes.
func (s *server) refuses() error {
	if !s.master {
		return errReadOnly
	}
	if s.need > 0 && !s.w.free {
		good := 0
		for _, r := range s.replicas() {
			if r.link == linked && (!r.paused || time.Since(r.trouble) < 2*time.Second) {
				good++
			}
		}
		if good < s.need {
			return errNoReplicas
		}
	}
	return nil
}

// append adds an entry to the log, and applies it.
func (s *server) append(e entry) {
	e.at = time.Since(s.w.start)
	s.take(e)
}

func (s *server) take(e entry) {
	s.log = append(s.log, e)
	s.offset += e.size
	if e.floor > 0 {
		s.floor = e.floor
	}
	if e.held != nil {
		s.held = e.held
	}
	s.beat = s.beat.Newer(e.beat)
}

// confirmed is how many of some replicas have acknowledged an offset.
func (s *server) confirmed(known []directory.Member, offset int64) (n int) {
	for _, r := range s.replicas() {
		if !slices.ContainsFunc(known, func(m directory.Member) bool { return m.Addr == r.name }) {
			continue
		}
		r.receive()
		if r.link == linked && !r.paused && !s.w.isCut(&r.host, &s.host) && r.offset >= offset {
			n++
		}
	}
	return n
}

// look returns the report that an agent sees.
func (s *server) look() members.Report {
	s.receive()
	l := members.Report{
		Identity: s.identity, Master: s.master, Linked: s.link == linked, Copying: s.link == copying || s.loads != nil,
		History: s.history, Before: s.before, Turned: s.branch, Run: s.run(), Offset: s.offset, Floor: s.floor, Beat: s.beat, Clock: time.Now(),
	}
	if s.held != nil {
		l.Copy = s.held.Epoch
	}
	for _, r := range s.replicas() {
		if r.link == linked {
			l.InStep++
		}
	}
	if !s.master {
		l.Follows, l.FollowsRun = "127.0.0.1:1", s.pass
		if s.target != nil {
			l.Follows = s.target.name
		}
		if !s.readable() {
			l.Identity, l.Floor, l.Copy, l.Beat = "", 0, 0, members.Beat{}
		}
		if s.forgot {
			l.Offset = 1
		}
	}
	return l
}

// readable reports whether clients may read it.
func (s *server) readable() bool {
	return s.master || s.serves || s.link == linked || s.w.sabotage.serve
}

// follow makes it a replica, without a master if target is nil, and ends all connections
// but the caller's.
func (s *server) follow(by *host, target *server) {
	s.receive()
	s.loose, s.loads = false, nil
	s.kills = append(s.kills, by.id)
	queue := s.queue
	s.queue = nil
	for _, c := range queue {
		if c.from == by {
			s.queue = append(s.queue, c)
		} else {
			c.answer(errReset)
		}
	}
	if !s.master && s.target == target {
		return
	}
	s.master, s.target, s.link = false, target, apart
}

// lead makes it take writes.
func (s *server) lead(beat members.Beat) {
	s.receive()
	s.amnesic, s.serves = false, true
	s.need = 0
	if !s.master {
		s.before, s.branch = s.history, s.offset
		s.history = s.newHistory()
		s.master, s.target, s.link, s.forgot = true, nil, apart, false
		s.leave()
	}
	s.append(entry{size: 70, floor: max(beat.Epoch, s.floor), beat: s.grown(beat)})
}

// grown returns a beat of which neither part is below that of the present one.
func (s *server) grown(beat members.Beat) members.Beat {
	return members.Beat{Epoch: max(beat.Epoch, s.beat.Epoch), Count: max(beat.Count, s.beat.Count)}
}

// receive takes the writes that its master has sent it by now.
func (s *server) receive() {
	if s.link != linked || s.down || s.paused || s.w.isCut(&s.host, &s.target.host) {
		return
	}
	now := time.Since(s.w.start)
	rest := s.target.log[len(s.log):]
	for len(rest) > 0 && rest[0].at+s.lag <= now {
		s.take(rest[0])
		rest = rest[1:]
	}
	s.amnesic = s.amnesic && len(rest) > 0 && rest[0].at <= s.rose
}

// step is a server's own activity, many times a second.
func (s *server) step() {
	if s.down || s.paused {
		return
	}
	if s.master {
		// Pings and keys that expire.
		if s.noise++; s.noise%7 == 0 && s.w.draw(&s.host, &s.host, 4) == 0 {
			s.append(entry{size: 14 + s.w.draw(&s.host, &s.host, 100)})
		}
		return
	}
	y := s.target
	if y == nil || y.down || y.paused || s.w.isCut(&s.host, &y.host) {
		return
	}
	switch s.link {
	case linked:
		s.receive()
	case copying:
		if !time.Now().Before(s.copyEnds) {
			s.endCopy(y)
		}
	case apart:
		switch {
		case !y.master && y.link != linked:
			// It has no master itself, and gives nothing.
		case y.run() != s.pass && !s.w.sabotage.anyRun:
			// It was restarted since the call that named it as a master to follow.
		case s.canGoOn(y):
			s.link = linked
			if s.history != y.history {
				s.before, s.branch, s.history = s.history, s.offset, y.history
				s.leave()
			}
			s.w.say("%s goes on from %s, at %d of %s", s.name, y.name, s.offset, s.history)
		default:
			y.receive()
			s.link, s.forgot = copying, true
			s.copied = y.data
			s.copied.log = slices.Clip(y.log)
			took := 20*time.Millisecond + time.Duration(s.w.draw(&s.host, &y.host, int64(1500*time.Millisecond)))
			s.copyEnds = time.Now().Add(took)
			s.w.say("%s is sent all that %s has, in %v", s.name, y.name, took)
		}
	}
}

// canGoOn reports whether a partial resync will do.
func (s *server) canGoOn(y *server) bool {
	same := s.history == y.history && s.offset <= y.offset ||
		s.history == y.before && s.offset <= y.branch
	if s.forgot || !same || s.offset < y.oldest || y.offset-s.offset > 1<<20 {
		return false
	}
	if len(s.log) > len(y.log) || len(s.log) > 0 && s.log[len(s.log)-1] != y.log[len(s.log)-1] {
		s.w.fail("the simulation is broken: %s and %s differ before %d of %s", s.name, y.name, s.offset, s.history)
	}
	return true
}

func (s *server) endCopy(y *server) {
	s.w.checkCopy(s, y)
	s.data = s.copied
	s.before, s.oldest = "", s.offset
	s.link, s.forgot = linked, false
	s.leave()
	s.w.say("%s has the copy from %s, at %d of %s", s.name, y.name, s.offset, s.history)
	s.receive()
}

// die kills it. Data that it had sent arrives, unless its machine died, too.
func (s *server) die(machine bool) {
	for _, r := range s.replicas() {
		if !machine && r.link == linked && !r.paused {
			lag := r.lag
			r.lag = 0
			r.receive()
			r.lag = lag
		}
	}
	s.w.kill(&s.host)
	s.planned, s.died = false, time.Since(s.w.start)
	s.leave()
	s.link, s.loads = apart, nil
	s.w.say("%s dies, its machine: %v", s.name, machine)
}

// How a server comes back.
const (
	fromSnapshot = iota // with its history, at an earlier place
	fromLog             // with all but the last moment, and a history of its own
	empty
)

// rise starts it again, boot-fenced, or without its fence as the master of its own data.
func (s *server) rise(how int, fenced bool) {
	if !s.down || s.gone {
		return
	}
	if how == empty && !s.w.baseWithout(s) || how == fromSnapshot && s.disk.identity == "" {
		how = fromLog
	}
	if s.saved {
		how, s.saved = fromSnapshot, false
	}
	s.down, s.trouble, s.rose, s.amnesic, s.serves, s.loose = false, time.Now(), time.Since(s.w.start), true, false, !fenced
	s.master, s.target, s.link, s.forgot, s.before, s.need = !fenced, nil, apart, false, "", 0
	switch how {
	case fromSnapshot:
		s.data = s.disk
		if !fenced {
			s.before, s.branch, s.history = s.history, s.offset, s.newHistory()
		}
	case fromLog:
		last := s.died - time.Duration(s.w.draw(&s.host, &s.host, int64(time.Second)))
		keep := len(s.log)
		for keep > 0 && s.log[keep-1].at > last {
			keep--
		}
		s.log = slices.Clip(s.log[:keep])
		s.floor, s.held, s.beat = 1, nil, members.Beat{}
		for _, e := range s.log {
			if e.floor > 0 {
				s.floor = e.floor
			}
			if e.held != nil {
				s.held = e.held
			}
			s.beat = s.beat.Newer(e.beat)
		}
		s.history, s.offset = s.newHistory(), s.w.draw(&s.host, &s.host, 2)*(1<<30)
	case empty:
		s.data = data{history: s.newHistory()}
	}
	s.oldest = s.offset
	s.runs++
	s.w.say("%s is started again %s, fenced: %v: %d writes, at %d of %s", s.name,
		[]string{"from its snapshot", "from its log", "empty"}[how], fenced, len(s.log), s.offset, s.history)
}

// save takes a snapshot.
func (s *server) save() {
	if !s.down && !s.paused && s.link != copying && !s.forgot {
		s.receive()
		s.disk = s.data
		s.disk.log = slices.Clip(s.log)
	}
}

func (s *server) belongs() string { return members.Identity("sim", s.partition) }
