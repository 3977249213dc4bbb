package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

// childURL makes the test binary a child that writes to the Redis at that URL.
const childURL = "CONNECT_TEST_CHILD_URL"

func beChild(url string) int {
	c, err := dial.Redis(context.Background(), url)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	if err := c.Do(context.Background(), c.B().Set().Key("child").Value("was here").Build()).Error(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func noServer() (string, error) { return "", redisproc.ErrNotFound }

func TestEmbedded(t *testing.T) {
	t.Parallel()
	binary := redistest.Binary(t)
	for _, tc := range []struct {
		kind string
		real bool
		find func() (string, error)
	}{
		{filepath.Base(binary), true, func() (string, error) { return binary, nil }},
		{KindMiniredis, false, noServer},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			i, err := Embedded(ctx, EmbeddedConfig{Find: tc.find})
			if err != nil {
				t.Fatal(err)
			}
			defer i.Close()
			if i.Kind != tc.kind || i.Real != tc.real {
				t.Errorf("Kind, Real = %q, %v, want %q, %v", i.Kind, i.Real, tc.kind, tc.real)
			}
			child := exec.CommandContext(ctx, os.Args[0])
			child.Env = append(os.Environ(), childURL+"="+i.URL)
			if out, err := child.CombinedOutput(); err != nil {
				t.Fatalf("a child process at %s: %v: %s", i.URL, err, out)
			}
			c := i.Client
			if got, err := c.Do(ctx, c.B().Get().Key("child").Build()).ToString(); err != nil || got != "was here" {
				t.Errorf("GET of what the child wrote = %q, %v, want %q", got, err, "was here")
			}

			if err := c.Do(ctx, c.B().Set().Key("short").Value("v").Px(20*time.Millisecond).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			redistest.Eventually(t, "a key with a time to live of 20 ms has expired", func() bool {
				return rueidis.IsRedisNil(c.Do(ctx, c.B().Get().Key("short").Build()).Error())
			})

			for range 2 {
				if err := i.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			network, addr := "tcp", strings.TrimPrefix(i.URL, "redis://")
			if tc.real {
				network, addr = "unix", strings.TrimPrefix(i.URL, "unix://")
			}
			if conn, err := net.Dial(network, addr); err == nil {
				conn.Close()
				t.Errorf("%s still accepts connections after Close", i.URL)
			}
		})
	}
}

func TestEmbeddedDoesNotHideABrokenServer(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "redis-server")
	redistest.WriteScript(t, broken, "echo out of order")
	find := func() (string, error) { return broken, nil }
	if i, err := Embedded(t.Context(), EmbeddedConfig{Find: find}); err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("Embedded with a broken server = %v, %v, want its last words", i, err)
	}
	other := errors.New("other")
	if i, err := Embedded(t.Context(), EmbeddedConfig{Find: func() (string, error) { return "", other }}); !errors.Is(err, other) {
		t.Errorf("Embedded whose Find fails = %v, %v, want that failure", i, err)
	}
}
