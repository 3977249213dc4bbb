package snapshot

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// link is a connection on which a member sends a snapshot, as to a new replica.
type link struct {
	conn   net.Conn
	in     *bufio.Reader
	offset int64 // of the member in its history when it began
	stop   func() bool
}

// transferBuffer is how many bytes are read at a time.
const transferBuffer = 256 << 10

// request connects to a member and requests a snapshot. It returns when the member has
// begun to save. The link ends with ctx.
//
// A replica that does not announce the capability "eof" is sent a file: the member saves to
// its disk, as by BGSAVE, and then sends the file.
func (p pool) request(ctx context.Context, addr string, timeout time.Duration) (*link, error) {
	option := p.Option(addr)
	dialing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := dial(dialing, &option, addr)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn, stop: context.AfterFunc(ctx, func() { conn.Close() })}
	l.in = bufio.NewReaderSize(&timeoutConn{conn, timeout}, transferBuffer)
	if err := l.ask(&option); err != nil {
		l.close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return l, nil
}

func (l *link) ask(option *rueidis.ClientOption) error {
	user, password := option.Username, option.Password
	if option.AuthCredentialsFn != nil {
		given, err := option.AuthCredentialsFn(rueidis.AuthCredentialsContext{Address: l.conn.RemoteAddr()})
		if err != nil {
			return err
		}
		user, password = given.Username, given.Password
	}
	if user != "" || password != "" {
		line, err := l.do("AUTH", cmp.Or(user, "default"), password)
		if err == nil && !strings.HasPrefix(line, "+") {
			err = errors.New(strings.TrimPrefix(line, "-"))
		}
		if err != nil {
			return err
		}
	}
	// Later writes are not needed. A server that does not know rdb-only refuses it and sends
	// them after the snapshot, and they are not read.
	if _, err := l.do("REPLCONF", "rdb-only", "1"); err != nil {
		return err
	}
	line, err := l.do("PSYNC", "?", "-1")
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return errBusy // the member waits for another child to end
	}
	if err != nil {
		return err
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "+FULLRESYNC" {
		return fmt.Errorf("the member answered PSYNC with %q", line)
	}
	l.offset, err = strconv.ParseInt(words[2], 10, 64)
	return err
}

// do sends a command and returns the line that answers it.
func (l *link) do(command ...string) (string, error) {
	text := fmt.Appendf(nil, "*%d\r\n", len(command))
	for _, word := range command {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := l.conn.Write(text); err != nil {
		return "", err
	}
	return l.line()
}

// line returns the next line that is not empty. A member sends empty ones while it saves.
func (l *link) line() (string, error) {
	for {
		line, err := l.in.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line = strings.TrimSpace(line); line != "" {
			return line, nil
		}
	}
}

// receive writes the snapshot to out and returns its length.
func (l *link) receive(out io.Writer) (int64, error) {
	line, err := l.line()
	if err != nil {
		return 0, err
	}
	length, err := strconv.ParseInt(strings.TrimPrefix(line, "$"), 10, 64)
	if err != nil || length <= 0 {
		return 0, fmt.Errorf("the member sent %q in place of the length of its snapshot", line)
	}
	return io.CopyN(out, l.in, length)
}

func (l *link) close() {
	l.stop()
	l.conn.Close()
}

// dial connects as the client does.
func dial(ctx context.Context, option *rueidis.ClientOption, addr string) (net.Conn, error) {
	switch {
	case option.DialCtxFn != nil:
		return option.DialCtxFn(ctx, addr, &option.Dialer, option.TLSConfig)
	case option.TLSConfig != nil:
		return (&tls.Dialer{NetDialer: &option.Dialer, Config: option.TLSConfig}).DialContext(ctx, "tcp", addr)
	default:
		return option.Dialer.DialContext(ctx, "tcp", addr)
	}
}

// timeoutConn is a connection with a timeout for each read.
type timeoutConn struct {
	net.Conn
	timeout time.Duration
}

func (p *timeoutConn) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(p.timeout)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}
