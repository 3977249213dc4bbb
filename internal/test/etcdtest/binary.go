package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Binary returns the etcd that tests run: MILLRACE_TEST_ETCD, else the version that the module
// in the folder server names, which is built first. If the build fails, for want of a network
// perhaps, Binary skips the test, or fails it when CI is set.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := find()
	if err != nil {
		end(t, err)
	}
	return path
}

// end ends a test for want of etcd.
func end(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNotBuilt) && os.Getenv("CI") == "" {
		t.Skipf("this test needs etcd: %v", err)
	} else {
		t.Fatalf("this test needs etcd: %v", err)
	}
}

// errNotBuilt says that the go command did not build etcd.
var errNotBuilt = errors.New("etcd was not built")

func find() (string, error) {
	if path := os.Getenv("MILLRACE_TEST_ETCD"); path != "" {
		return exec.LookPath(path)
	}
	return built()
}

// buildTimeout is how long a build may take, with downloads.
const buildTimeout = 10 * time.Minute

// built returns the path in Go's build cache of etcd, which it builds unless it is there.
var built = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	env, err := command(ctx, "", "env", "GOMOD", "GOCACHE")
	if err != nil {
		return "", err
	}
	mod, cache, _ := strings.Cut(env, "\n")
	// Several packages' tests begin at the same time, and the go command would compile
	// everything for each of them.
	lock, err := os.OpenFile(filepath.Join(cache, "millrace-etcd.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	// Instead of the program, -exec runs echo, which prints where the program is. A first run may print the folder in
	// which it was linked, which has gone; the second finds it in the cache. Unlike `go tool`, `go run` obeys GOFLAGS:
	// it takes from the cache the packages that etcd and others have in common.
	dir := filepath.Join(filepath.Dir(mod), "internal", "test", "etcdtest", "server")
	for range 2 {
		path, err := command(ctx, dir, "run", "-exec", "echo", "go.etcd.io/etcd/server/v3")
		if failed, _ := errors.AsType[*exec.ExitError](err); failed != nil {
			return "", fmt.Errorf("%w: %w", errNotBuilt, err)
		}
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("go run does not keep etcd in its cache")
})

// command runs the go command in a folder, and returns its output.
func command(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		failed, _ := errors.AsType[*exec.ExitError](err)
		if failed != nil {
			err = fmt.Errorf("%w\n%s", err, failed.Stderr)
		}
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return string(bytes.TrimSpace(out)), nil
}
