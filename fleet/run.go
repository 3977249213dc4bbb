package fleet

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

	"github.com/millrace/millrace/internal/fleet/members"
)

// errRestarted means that a server is in another run than the map has: the data on its disk may
// be old, and no agent has examined it.
var errRestarted = errors.New("it was restarted, and no agent has examined its data since")

// dial connects to the member in the run in which the map has it. A connection belongs to one run,
// so nothing is read from a restarted member, nor written to it, before an agent has found it to
// have all data: however it was started, and while it still catches up with its master.
func (m *member) dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	var conn net.Conn
	var err error
	switch option := &m.option; { // as rueidis does
	case option.DialCtxFn != nil:
		conn, err = option.DialCtxFn(ctx, addr, dialer, config)
	case option.DialFn != nil:
		conn, err = option.DialFn(addr, dialer, config)
	case config != nil:
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", addr)
	default:
		conn, err = dialer.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	refuse := func(why error) (net.Conn, error) {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: conn.RemoteAddr(), Err: why} // nothing was sent for a caller
	}
	if wanted := m.run.Load(); wanted != nil && *wanted != "" {
		run, err := askRun(ctx, conn, &m.option)
		switch {
		case err != nil:
			return refuse(err)
		case run != "" && run != *wanted:
			return refuse(errRestarted)
		}
	}
	return conn, nil
}

// askRun asks a server for its run id, before the client uses the connection. It is empty if the
// user may not ask; the client reports a refusal when it makes the connection its own.
func askRun(ctx context.Context, conn net.Conn, option *rueidis.ClientOption) (string, error) {
	until := time.Now().Add(option.ConnWriteTimeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	if err := conn.SetDeadline(until); err != nil {
		return "", err
	}
	user, password := option.Username, option.Password
	if option.AuthCredentialsFn != nil {
		credentials, err := option.AuthCredentialsFn(rueidis.AuthCredentialsContext{Address: conn.RemoteAddr()})
		if err != nil {
			return "", err
		}
		user, password = credentials.Username, credentials.Password
	}
	in := bufio.NewReader(conn)
	if user != "" || password != "" {
		if _, err := ask(conn, in, "AUTH", cmp.Or(user, "default"), password); err != nil {
			return "", err
		}
	}
	text, err := ask(conn, in, "INFO", "server")
	if err != nil {
		return "", err
	}
	return members.ParseInfo(text).Run, conn.SetDeadline(time.Time{})
}

// ask sends a command and returns its reply if that is a string.
func ask(conn net.Conn, in *bufio.Reader, command ...string) (string, error) {
	text := fmt.Appendf(nil, "*%d\r\n", len(command))
	for _, word := range command {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write(text); err != nil {
		return "", err
	}
	line, err := in.ReadString('\n')
	length, isString := strings.CutPrefix(line, "$")
	if err != nil || !isString {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSpace(length))
	if err != nil || n < 0 {
		return "", err
	}
	reply := make([]byte, n+len("\r\n"))
	_, err = io.ReadFull(in, reply)
	return string(reply), err
}
