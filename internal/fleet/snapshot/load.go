package snapshot

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
)

// Load is a file on its way into a member: this process is the master from which the member copies
// its data. So no file has to be put on the member's machine, and the server is not restarted.
//
//	REPLICAOF this process ─▶ AUTH ─▶ PSYNC ─▶ the file ─▶ (the member loads it) ─▶ REPLCONF ACK
//	         ▲                                                     │
//	         └──────────── an agent has fenced the member ─────────┘
type Load struct {
	Option  rueidis.ClientOption // user, password and TLS settings for the member
	Addr    string               // of the member, which must reach this process
	Path    string
	History string       // the replication id that the member has afterwards, 40 hexadecimal digits
	Logger  *slog.Logger // reports progress
}

// connectTimeout is how long a member may take to connect to this process.
const connectTimeout = 10 * time.Second

// errAway means that the member ended the connection.
var errAway = errors.New("the member ended the connection")

// tries is how often the file is sent to a member that does not load it: an agent that does not know
// of the choice yet may have fenced it meanwhile.
const tries = 3

// Run returns when the member has loaded the file, or when it cannot. The error is ErrNotLoaded or the
// cause of ctx.
func (l Load) Run(ctx context.Context) error {
	pool := members.New(l.Option, time.Second)
	defer pool.Close()
	listener, err := l.listen(ctx, pool)
	if err != nil {
		return l.failed(ctx, err)
	}
	defer func() { _ = listener.Close() }()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	secret := rand.Text()
	times := 0
	for until := time.Now().Add(connectTimeout); ; {
		err := l.follow(ctx, pool, listener.Addr(), secret)
		sent := false
		if err == nil {
			sent, err = l.serve(ctx, pool, listener, secret)
		}
		if err == nil {
			return nil
		}
		if sent {
			times++
			until = time.Now().Add(connectTimeout)
		}
		if times == tries || time.Now().After(until) || !retry.Sleep(ctx, 100*time.Millisecond) {
			return l.failed(ctx, err)
		}
		l.Logger.DebugContext(ctx, "the file is sent again", "addr", l.Addr, "error", err)
	}
}

func (l Load) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrNotLoaded.Errorf("%s did not load %s", l.Addr, l.Path).Wrap(err)
}

// listen listens at the address of this machine from which it reaches the member.
func (l Load) listen(ctx context.Context, pool *members.Pool) (*net.TCPListener, error) {
	option := pool.Option(l.Addr)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := dial(ctx, &option, l.Addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("%s is reached from %s, which has no port", l.Addr, conn.LocalAddr())
	}
	return net.ListenTCP("tcp", &net.TCPAddr{IP: local.IP, Zone: local.Zone})
}

// follow makes the member copy from this process.
func (l Load) follow(ctx context.Context, pool *members.Pool, to net.Addr, secret string) error {
	host, port, err := net.SplitHostPort(to.String())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err = members.Ask(ctx, pool, l.Addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
		return struct{}{}, members.Follow(ctx, c, host, port, l.History, secret)
	})
	return err
}

// serve sends the file to the member when that connects, and waits until it is loaded. It reports
// whether the file was sent.
func (l Load) serve(ctx context.Context, pool *members.Pool, listener *net.TCPListener, secret string) (sent bool, err error) {
	if err := listener.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
		return false, err
	}
	conn, err := listener.Accept()
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return false, fmt.Errorf("it did not connect to %s within %v: run the command on a machine that members can reach, and open its ports for them", listener.Addr(), connectTimeout)
	}
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	user, password := members.Login(l.History, secret)
	r := replica{Conn: conn, in: bufio.NewReader(conn), user: user, password: password}
	if err := conn.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
		return false, err
	}
	if err := r.handshake(); err != nil {
		return false, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil { // a member that is gone ends the connection, by keep-alive
		return false, err
	}
	if err := l.send(ctx, conn); err != nil {
		return false, err
	}
	l.Logger.InfoContext(ctx, "the member loads the file", "addr", l.Addr)
	// Newlines and other words come while it loads.
	for {
		if words, err := r.command(); err != nil {
			return true, err
		} else if len(words) > 1 && strings.EqualFold(words[0], "REPLCONF") && strings.EqualFold(words[1], "ACK") {
			break
		}
	}
	report, err := members.Ask(ctx, pool, l.Addr, members.Examine)
	if err == nil && (report.History != l.History || report.Loading || report.Copying) {
		err = errAway
	}
	return true, err
}

// send sends the file, and reports progress each second.
func (l Load) send(ctx context.Context, conn net.Conn) error {
	file, err := os.Open(l.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "+FULLRESYNC %s 1\r\n$%d\r\n", l.History, info.Size()); err != nil {
		return err
	}
	for sent, logged := int64(0), time.Now(); sent < info.Size(); {
		n, err := io.CopyN(conn, file, min(4<<20, info.Size()-sent))
		if sent += n; err != nil {
			return err
		}
		if time.Since(logged) > time.Second {
			logged = time.Now()
			l.Logger.InfoContext(ctx, "sending the file", "addr", l.Addr, "bytes", sent, "of", info.Size())
		}
	}
	return nil
}

// replica is the connection of a member that copies.
type replica struct {
	net.Conn

	in             *bufio.Reader
	user, password string
}

// handshake answers the member until it asks for all data.
func (r replica) handshake() error {
	if first, err := r.in.Peek(1); err == nil && first[0] == tlsRecord {
		return errors.New("it replicates with TLS, and this process cannot: put the file into its folder, as docs/FLEET.md says")
	}
	known := false
	for {
		words, err := r.command()
		if err != nil {
			return err
		}
		answer := "+OK"
		switch strings.ToUpper(words[0]) {
		case "PING":
			answer = "+PONG"
		case "AUTH":
			if known = len(words) == 3 && words[1] == r.user && words[2] == r.password; !known {
				answer = "-WRONGPASS another process follows"
			}
		case "REPLCONF":
		case "PSYNC", "SYNC":
			if known {
				return nil
			}
			answer = "-NOAUTH"
		default:
			answer = "-ERR unknown command"
		}
		if _, err := fmt.Fprint(r, answer, "\r\n"); err != nil {
			return err
		}
	}
}

// tlsRecord is the first byte of a TLS handshake.
const tlsRecord = 0x16

// command returns the words of the next command. It passes over empty lines.
func (r replica) command() ([]string, error) {
	for {
		line, err := r.line()
		switch {
		case err != nil:
			return nil, err
		case line == "":
			continue
		case line[0] != '*':
			return strings.Fields(line), nil
		}
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 1 || n > 100 {
			return nil, fmt.Errorf("it sent %q", line)
		}
		words := make([]string, n)
		for i := range words {
			if _, err = r.line(); err == nil { // its length
				words[i], err = r.line()
			}
			if err != nil {
				return nil, err
			}
		}
		return words, nil
	}
}

// line returns the next line. Words of a handshake have no line ends.
func (r replica) line() (string, error) {
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, io.EOF) {
		err = errAway
	}
	return strings.TrimSpace(string(line)), err
}
