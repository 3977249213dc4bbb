package redistest

import (
	"bufio"
	"bytes"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// link is one client's way through the proxy:
//
//	client --forward--> server --receive--> out --deliver--> client
//
// forward notes each command in pending; receive takes each reply's command
// from there; deliver waits for the delay and the gate. An item without a
// frame in out cuts the link after the items before it.
type link struct {
	p              *Proxy
	client, server net.Conn
	out            chan item

	closing sync.Once
	done    chan struct{} // closed by cut

	// subscribed says that confirmations and messages may come, which in RESP2
	// look like replies.
	subscribed atomic.Bool

	mu      sync.Mutex
	pending []command
	last    bool // the command after the pending ones was dropped
}

// command is a forwarded command that has not been answered.
type command struct {
	waiting []*Fault
	// confirms is how many confirmations a (un)subscribe command gets in place
	// of one reply; openEnded says that only the server knows.
	confirms  int
	openEnded bool
}

// item is one frame on its way to the client.
type item struct {
	frame []byte
	due   time.Time // zero when there is no delay
}

const (
	// linkBuffer is the size of each of a link's three buffers, in bytes.
	linkBuffer = 32 << 10

	// linkQueue is how many frames wait for delivery before the server's
	// replies are left unread.
	linkQueue = 1024
)

func newLink(p *Proxy, client, server net.Conn) *link {
	return &link{p: p, client: client, server: server, out: make(chan item, linkQueue), done: make(chan struct{})}
}

// cut closes both connections, which ends all three goroutines.
func (l *link) cut() {
	l.closing.Do(func() {
		close(l.done)
		l.client.Close()
		l.server.Close()
	})
}

// forward sends the client's commands on to the server.
func (l *link) forward() {
	in := bufio.NewReaderSize(l.client, linkBuffer)
	out := bufio.NewWriterSize(l.server, linkBuffer)
	var req request
	for {
		if in.Buffered() == 0 && out.Flush() != nil {
			l.cut()
			return
		}
		if req.read(in) != nil {
			l.cut()
			return
		}
		if len(req.args) > 0 && l.note(&req) {
			out.Flush()
			return
		}
		if _, err := out.Write(req.raw); err != nil {
			l.cut()
			return
		}
	}
}

// note enters a command into pending, or reports that it was dropped.
func (l *link) note(req *request) (drop bool) {
	var cmd command
	if l.p.armed.Load() {
		drop, cmd.waiting = l.p.inspect(req.words())
	}
	if name := req.arg(0); len(name) >= len("subscribe") && bytes.HasSuffix(bytes.ToLower(name), []byte("subscribe")) {
		cmd.confirms = len(req.args) - 1
		cmd.openEnded = cmd.confirms == 0
		l.subscribed.Store(true)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if !drop {
		l.pending = append(l.pending, cmd)
		return false
	}
	l.last = true
	if len(l.pending) == 0 {
		l.send(item{})
	}
	return true
}

// receive reads the server's replies and decides whether each is delivered.
func (l *link) receive() {
	in := bufio.NewReaderSize(l.server, linkBuffer)
	for {
		frame, err := appendReply(nil, in)
		if err != nil {
			l.send(item{})
			return
		}
		cmd, complete := l.pair(frame)
		if frame[0] != '-' && len(cmd.waiting) > 0 && l.p.claim(cmd.waiting) {
			l.send(item{})
			return
		}
		next := item{frame: frame}
		if delay := l.p.delay.Load(); delay > 0 {
			next.due = time.Now().Add(time.Duration(delay))
		}
		l.send(next)
		if complete && l.settle() {
			l.send(item{})
			return
		}
	}
}

// pair returns the pending command that a frame belongs to, and whether the
// frame completes its answer. The command stays pending until settle, so that
// forward does not cut the link before the frame is queued.
func (l *link) pair(frame []byte) (cmd command, complete bool) {
	kind := l.outOfBand(frame)
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == "" {
		// An ordinary reply ends an unsubscription from all channels before it.
		for len(l.pending) > 1 && l.pending[0].openEnded {
			l.pending = l.pending[1:]
		}
	}
	if len(l.pending) == 0 {
		return command{}, false
	}
	head := &l.pending[0]
	switch {
	case kind == "":
		return *head, true
	case strings.HasSuffix(kind, "subscribe") && head.confirms > 0:
		head.confirms--
		return *head, head.confirms == 0
	default:
		return command{}, false
	}
}

// settle removes the answered command. It reports true when no answer may
// come any more because the next command was dropped.
func (l *link) settle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending = l.pending[1:]; len(l.pending) > 0 {
		return false
	}
	l.pending = nil // lets the spent backing array go
	return l.last
}

// outOfBand returns the kind of a frame that is not the reply of a command,
// such as "message", "subscribe" or "invalidate", else "".
func (l *link) outOfBand(frame []byte) string {
	kind := string(firstText(frame))
	if frame[0] == '>' {
		return kind
	}
	if frame[0] == '*' && l.subscribed.Load() {
		switch kind {
		case "message", "pmessage", "smessage",
			"subscribe", "psubscribe", "ssubscribe",
			"unsubscribe", "punsubscribe", "sunsubscribe":
			return kind
		}
	}
	return ""
}

// send queues an item unless the link is cut.
func (l *link) send(next item) {
	select {
	case l.out <- next:
	case <-l.done:
	}
}

// deliver writes the frames to the client when they are due.
func (l *link) deliver() {
	defer l.cut()
	out := bufio.NewWriterSize(l.client, linkBuffer)
	for {
		var next item
		select {
		case next = <-l.out:
		default:
			if out.Flush() != nil {
				return
			}
			select {
			case next = <-l.out:
			case <-l.done:
				return
			}
		}
		if wait := time.Until(next.due); !next.due.IsZero() && wait > 0 {
			if out.Flush() != nil || !l.sleep(wait) {
				return
			}
		}
		if gate := l.p.gate.Load(); gate != nil {
			if out.Flush() != nil {
				return
			}
			select {
			case <-*gate:
			case <-l.done:
				return
			}
		}
		if next.frame == nil {
			out.Flush()
			return
		}
		if _, err := out.Write(next.frame); err != nil {
			return
		}
	}
}

// sleep waits and reports false if the link was cut meanwhile.
func (l *link) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.done:
		return false
	}
}
