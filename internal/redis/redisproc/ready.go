package redisproc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// pollEvery is how often a starting server is asked whether it is ready.
const pollEvery = time.Millisecond

// awaitReady returns nil when the server answers or when its process has
// ended, and an error when ctx ends first.
func (p *Proc) awaitReady(ctx context.Context, r *run) error {
	network, addr := p.place.addr()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ready(ctx, network, addr, r.proc.Pid) {
			return nil
		}
		select {
		case <-r.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("redisproc: %s does not answer at %s: %w", p.cfg.Binary, addr, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// ready reports whether the process pid answers at the address and has loaded
// its data. The process id matters on TCP: another process may have the port.
func ready(ctx context.Context, network, addr string, pid int) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, "PING\r\nINFO server\r\n"); err != nil {
		return false
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "-NOAUTH"):
			return true // it has a password, and shows no more
		case strings.HasPrefix(line, "-LOADING"):
			return false
		case strings.HasPrefix(line, "process_id:"):
			return line == "process_id:"+strconv.Itoa(pid)
		}
	}
	return false
}
