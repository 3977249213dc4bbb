package redistest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// machineSource is a library that is loaded into the server.
//
//go:embed testdata/machine.c
var machineSource string

// Machine is a server on a machine of its own, which may lose power, and whose clock may be set.
type Machine struct {
	*Server
	synced, clock string // files: the bytes that are on the disk, and how far the clock is ahead
}

// StartMachine runs a server like Start. It needs Linux and a C compiler, as the race detector does, and skips the test without, or
// fails it when CI is set.
func StartMachine(t testing.TB, opts Options) *Machine {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	switch {
	case runtime.GOOS != "linux":
		t.Skip("this test needs Linux")
	case err != nil && os.Getenv("CI") != "":
		t.Fatalf("this test needs a C compiler, and CI must not skip it: %v", err)
	case err != nil:
		t.Skipf("this test needs a C compiler: %v", err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("machine.c"), []byte(machineSource), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-O1", "-o", at("machine.so"), at("machine.c"), "-ldl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := &Machine{synced: at("synced"), clock: at("clock")}
	m.SetClock(t, 0)
	opts.Env = append(opts.Env, "LD_PRELOAD="+at("machine.so"), "MR_SYNCED="+m.synced, "MR_CLOCK="+m.clock)
	m.Server = Start(t, opts)
	return m
}

// SetClock sets the server's clock ahead of the true one, or back. The clock that counts time from the start goes on, as with
// the real one.
func (m *Machine) SetClock(t testing.TB, ahead time.Duration) {
	t.Helper()
	file, err := os.OpenFile(m.clock, os.O_CREATE|os.O_WRONLY, 0o600) // no other file: the server has mapped this one
	if err == nil {
		_, err = file.Write(binary.NativeEndian.AppendUint64(nil, uint64(ahead.Microseconds())))
		file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// LastSync returns when the server last synced a file, and zero before the first time.
func (m *Machine) LastSync() time.Time {
	at, err := os.Stat(m.synced)
	if err != nil {
		return time.Time{}
	}
	return at.ModTime()
}

// LosePower ends the server. Its append-only file keeps the bytes that the server has had synced, and no others, as on a disk
// that keeps its word and writes nothing before it must. Restart brings the server back.
func (m *Machine) LosePower() {
	m.t.Helper()
	m.Kill()
	notes, err := os.ReadFile(m.synced)
	if err != nil {
		m.t.Fatalf("the server has synced nothing: %v", err)
	}
	kept := map[string]int64{}
	for line := range strings.Lines(string(notes)) {
		var size int64
		var path string
		if _, err := fmt.Sscan(line, &size, &path); err != nil {
			m.t.Fatalf("note %q: %v", line, err)
		}
		kept[path] = size
	}
	err = filepath.WalkDir(m.proc.Dir(), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".aof" {
			return err
		}
		return os.Truncate(path, kept[path])
	})
	if err != nil {
		m.t.Fatal(err)
	}
}
