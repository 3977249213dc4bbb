package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

func incr(ctx context.Context, c rueidis.Client, key string) (int64, error) {
	return c.Do(ctx, c.B().Incr().Key(key).Build()).AsInt64()
}

func TestProxyIsTransparent(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(testing.TB, string) *Proxy{"socket": NewProxy, "tcp": NewTCPProxy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, key := make(t, Shared(t).Addr()).Client(t), Name(t)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 200 {
						want := strings.Repeat(fmt.Sprintf("%d.%d ", g, i), i)
						got, err := c.Do(t.Context(), c.B().Echo().Message(want).Build()).ToString()
						if err != nil || got != want {
							t.Errorf("ECHO of %d bytes = %d bytes, %v", len(want), len(got), err)
							return
						}
						if _, err := incr(t.Context(), c, key); err != nil {
							t.Errorf("INCR: %v", err)
							return
						}
					}
				})
			}
			wg.Wait()
			if got, want := get(t, c, key), "1600"; got != want {
				t.Errorf("counter = %s, want %s", got, want)
			}
		})
	}
}

func TestDropReplyExecutesOnce(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := NewProxy(t, s.Addr())
	c, key := p.Client(t), Name(t)
	fault := p.DropReply(Named("incr"))

	if n, err := incr(t.Context(), c, key); err == nil {
		t.Errorf("INCR whose reply is dropped = %d, want an error", n)
	}
	<-fault.Done()
	direct := s.Client(t)
	if got, err := incr(t.Context(), direct, key); err != nil || got != 2 {
		t.Errorf("second INCR = %d, %v, want 2: the first executed", got, err)
	}
	if got, want := fault.Count(), 1; got != want {
		t.Errorf("Count() = %d, want %d", got, want)
	}
	if got, want := p.Dropped(), 1; got != want {
		t.Errorf("Dropped() = %d, want %d", got, want)
	}
}

func TestDropReplySparesErrors(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	p := NewProxy(t, s.Addr())
	c := p.Client(t)
	fault := p.DropReply(Named("EVALSHA", "EVAL"))
	script := rueidis.NewLuaScript("return redis.call('INCR', KEYS[1])")

	err := script.Exec(t.Context(), c, []string{"k"}, nil).Error()
	if err == nil || strings.HasPrefix(err.Error(), "NOSCRIPT") {
		t.Errorf("script whose reply is dropped: %v, want a connection error", err)
	}
	if got, want := fault.Count(), 1; got != want {
		t.Errorf("Count() = %d, want %d", got, want)
	}
	if got, want := get(t, s.Client(t), "k"), "1"; got != want {
		t.Errorf("the script ran %s times, want %s: the drop must not be spent on NOSCRIPT", got, want)
	}
}

func TestDropReplyInAPipeline(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := NewProxy(t, s.Addr())
	c, a, b := p.Client(t), Name(t), Name(t)
	p.DropReply(func(cmd []string) bool { return cmd[0] == "INCR" && cmd[1] == b })

	got := c.DoMulti(t.Context(),
		c.B().Set().Key(a).Value("v").Build(), c.B().Incr().Key(b).Build(), c.B().Incr().Key(b).Build())
	if err := got[0].Error(); err != nil {
		t.Errorf("the command before the dropped one: %v, want its reply", err)
	}
	if err := got[1].Error(); err == nil {
		t.Error("the dropped command got a reply")
	}
	if err := got[2].Error(); err == nil {
		t.Error("the command after the dropped one got a reply")
	}
	direct := s.Client(t)
	Eventually(t, "the pipeline's commands have executed", func() bool { return get(t, direct, b) >= "1" })
}

func TestDropReplyWhenUntilHeal(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := NewProxy(t, s.Addr())
	c, key := p.Client(t), Name(t)
	random := rand.New(rand.NewPCG(1, 2))
	fault := p.DropReplyWhen(func(cmd []string) bool { return cmd[0] == "INCR" && random.IntN(4) == 0 })

	const calls = 200
	answered := 0
	for range calls {
		if _, err := incr(t.Context(), c, key); err == nil {
			answered++
		}
	}
	p.Heal()
	dropped := fault.Count()
	if dropped == 0 || dropped > calls-answered {
		t.Errorf("Count() = %d, want at least one and at most the %d failed calls", dropped, calls-answered)
	}
	// Besides the dropped ones, calls failed that found the connection closed.
	if got, want := get(t, s.Client(t), key), strconv.Itoa(answered+dropped); got != want {
		t.Errorf("counter = %s, want %s: each answered and each dropped call executed once", got, want)
	}
	Eventually(t, "the healed proxy lets 20 calls in a row through", func() bool {
		for range 20 {
			if _, err := incr(t.Context(), c, key); err != nil {
				return false
			}
		}
		return true
	})
	if got, want := fault.Count(), dropped; got != want {
		t.Errorf("Count() after Heal = %d, want %d as before", got, want)
	}
}

func TestDropRequestDoesNotExecute(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := NewProxy(t, s.Addr())
	c, a, b := p.Client(t), Name(t), Name(t)
	fault := p.DropRequest(Named("INCR"))

	got := c.DoMulti(t.Context(), c.B().Set().Key(a).Value("v").Build(), c.B().Incr().Key(b).Build())
	if err := got[0].Error(); err != nil {
		t.Errorf("the command before the dropped one: %v, want its reply", err)
	}
	if err := got[1].Error(); err == nil {
		t.Error("the dropped command got a reply")
	}
	<-fault.Done()
	if n, err := incr(t.Context(), s.Client(t), b); err != nil || n != 1 {
		t.Errorf("INCR after the drop = %d, %v, want 1: the dropped one did not execute", n, err)
	}
}

// Ten calls at once, each 150 ms away, take little more than 150 ms.
func TestDelayIsLatency(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Shared(t).Addr())
	c, key := p.Client(t), Name(t)
	const delay = 150 * time.Millisecond
	p.Delay(delay)

	begin := time.Now()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := incr(t.Context(), c, key); err != nil {
				t.Errorf("INCR: %v", err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(begin); took < delay || took > 5*delay {
		t.Errorf("ten pipelined calls took %v, want between %v and %v", took, delay, 5*delay)
	}

	p.Heal()
	begin = time.Now()
	if _, err := incr(t.Context(), c, key); err != nil {
		t.Errorf("INCR: %v", err)
	}
	if took := time.Since(begin); took >= delay {
		t.Errorf("after Heal a call took %v, want less than %v", took, delay)
	}
}

func TestHalfCloseHoldsReplies(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := NewProxy(t, s.Addr())
	c, direct, key := p.Client(t), s.Client(t), Name(t)
	p.HalfClose()

	replies := make(chan error, 1)
	go func() {
		_, err := incr(t.Context(), c, key)
		replies <- err
	}()
	Eventually(t, "the command has executed", func() bool { return get(t, direct, key) == "1" })
	select {
	case err := <-replies:
		t.Fatalf("the reply came through (error: %v)", err)
	default:
	}
	p.Heal()
	if err := <-replies; err != nil {
		t.Errorf("INCR after Heal = %v, want its late reply", err)
	}
}

func TestCutAndRefuse(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Shared(t).Addr())
	conn, err := net.Dial("unix", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := in.ReadString('\n'); err != nil || got != "+PONG\r\n" {
		t.Fatalf("inline PING = %q, %v, want +PONG", got, err)
	}
	p.Refuse(true)
	p.Cut()
	if _, err := in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read from a cut connection = %v, want the end", err)
	}
	if c, err := rueidis.NewClient(rueidis.MustParseURL(p.URL())); err == nil {
		c.Close()
		t.Error("a client could connect while the proxy refuses")
	}
	p.Heal()
	set(t, p.Client(t), Name(t), "v")
}

func TestProxyPairsPubSub(t *testing.T) {
	t.Parallel()
	for name, resp2 := range map[string]bool{"RESP2": true, "RESP3": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := NewProxy(t, Shared(t).Addr())
			conn, err := net.Dial("unix", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(waitTimeout)); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			send := func(line string) {
				t.Helper()
				if _, err := io.WriteString(conn, line+"\r\n"); err != nil {
					t.Fatal(err)
				}
			}
			want := func(parts ...string) {
				t.Helper()
				frame, err := appendReply(nil, in)
				for _, part := range parts {
					if err != nil || !strings.Contains(string(frame), part) {
						t.Fatalf("frame = %q, %v, want one with %q", frame, err, parts)
					}
				}
			}
			version := map[bool]string{true: "2", false: "3"}[resp2]
			a, b := Name(t), Name(t)
			send("HELLO " + version)
			want("proto")
			send("SUBSCRIBE " + a + " " + b)
			want("subscribe", a)
			want("subscribe", b)
			direct := Shared(t).Client(t)
			if err := direct.Do(t.Context(), direct.B().Publish().Channel(a).Message("hello").Build()).Error(); err != nil {
				t.Fatal(err)
			}
			want("message", "hello")
			send("UNSUBSCRIBE")
			want("unsubscribe")
			want("unsubscribe")

			// The pairing has survived: the drop strikes the right command.
			fault := p.DropReply(func(cmd []string) bool { return len(cmd) > 1 && cmd[1] == "second" })
			send("ECHO first\r\nECHO second\r\nECHO third")
			want("first")
			if frame, err := appendReply(nil, in); err == nil {
				t.Errorf("after the drop came %q, want the end", frame)
			}
			if got, want := fault.Count(), 1; got != want {
				t.Errorf("Count() = %d, want %d", got, want)
			}
		})
	}
}

func TestAppendReplyFramesEveryType(t *testing.T) {
	t.Parallel()
	frames := []string{
		"+OK\r\n", "-ERR no\r\n", ":12\r\n", "_\r\n", ",1.5\r\n", "#t\r\n", "(123456789012345678901234567890\r\n",
		"$-1\r\n", "$0\r\n\r\n", "$5\r\na\r\nbc\r\n", "=7\r\ntxt:abc\r\n", "!3\r\nERR\r\n",
		"*-1\r\n", "*0\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "~2\r\n:1\r\n:2\r\n", "%1\r\n+k\r\n*1\r\n_\r\n",
		">2\r\n+message\r\n$1\r\nx\r\n", "|1\r\n+ttl\r\n:5\r\n$1\r\nx\r\n",
		"$100000\r\n" + strings.Repeat("y", 100000) + "\r\n",
	}
	in := bufio.NewReaderSize(strings.NewReader(strings.Join(frames, "")), 16)
	for _, want := range frames {
		got, err := appendReply([]byte("before "), in)
		if err != nil || string(got) != "before "+want {
			t.Errorf("appendReply = %.60q, %v, want %.60q", got, err, "before "+want)
		}
	}
	if _, err := appendReply(nil, in); !errors.Is(err, io.EOF) {
		t.Errorf("appendReply at the end = %v, want EOF", err)
	}
}

func BenchmarkProxy(b *testing.B) {
	s := Shared(b)
	for name, url := range map[string]string{"direct": s.URL(), "proxy": NewProxy(b, s.Addr()).URL()} {
		b.Run(name, func(b *testing.B) {
			c := newClient(b, rueidis.MustParseURL(url), nil)
			defer c.Close()
			key := Name(b)
			b.SetParallelism(25)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := incr(b.Context(), c, key); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
