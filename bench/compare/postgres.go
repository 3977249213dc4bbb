package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/redis/redisproc"
)

// postgres is a private PostgreSQL server with the defaults of its distribution: each commit
// waits until it is on the disk.
type postgres struct {
	folder     string // of the socket and the data
	attributes *syscall.SysProcAttr
	process    *os.Process
	ended      chan struct{}
}

// postgresPrograms returns the folder of PostgreSQL's programs: that of postgres on PATH, else
// the newest that Debian has. It returns "" if there is none.
func postgresPrograms() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return ""
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // a name that is no number is old
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
}

func missingPostgres() string {
	if postgresPrograms() == "" {
		return "there is no PostgreSQL here"
	}
	return ""
}

func startPostgres(ctx context.Context) (p *postgres, err error) {
	folder, err := os.MkdirTemp("", "millrace-pg")
	if err != nil {
		return nil, err
	}
	p = &postgres{folder: folder, attributes: &syscall.SysProcAttr{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if tied := redisproc.Attributes(); tied != nil {
		*p.attributes = *tied
	}
	if err := p.asUnprivilegedUser(); err != nil {
		return p, err
	}
	var said bytes.Buffer
	initdb := p.command("initdb", "--pgdata="+p.data(), "--username=millrace", "--auth=trust", "--encoding=UTF8", "--no-locale")
	initdb.Stdout, initdb.Stderr = &said, &said
	if err := initdb.Run(); err != nil {
		return p, fmt.Errorf("initdb: %w\n%s", err, said.String())
	}
	return p, p.launch(ctx)
}

func (p *postgres) dsn() string  { return "host=" + p.folder + " user=millrace dbname=postgres" }
func (p *postgres) data() string { return filepath.Join(p.folder, "data") }

func (p *postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(postgresPrograms(), name), args...)
	cmd.Dir, cmd.SysProcAttr = p.folder, p.attributes
	return cmd
}

// launch starts the server and waits until it serves.
func (p *postgres) launch(ctx context.Context) error {
	server := p.command("postgres", "-D", p.data(), "-k", p.folder, "-c", "listen_addresses=")
	started := make(chan error)
	ended := make(chan struct{})
	go func() {
		runtime.LockOSThread() // the kernel ends the server when this thread ends
		defer runtime.UnlockOSThread()
		err := server.Start()
		started <- err
		if err == nil {
			_ = server.Wait()
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	p.process, p.ended = server.Process, ended
	return await(ctx, pollEvery, "PostgreSQL serves", func() (bool, error) {
		state, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
		return err == nil && strings.Contains(string(state), "ready"), nil
	})
}

// crash ends the server without a checkpoint, in the middle of its work.
func (p *postgres) crash() error { return p.end(syscall.SIGQUIT) }

func (p *postgres) end(signal os.Signal) error {
	if p.process == nil {
		return nil
	}
	if err := p.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	kill := time.AfterFunc(20*time.Second, func() { _ = p.process.Kill() })
	defer kill.Stop()
	<-p.ended
	p.process = nil
	return nil
}

func (p *postgres) stop() error {
	return errors.Join(p.end(os.Interrupt), os.RemoveAll(p.folder))
}

// asUnprivilegedUser has the server run as a user that PostgreSQL accepts, and gives that user
// the folder.
func (p *postgres) asUnprivilegedUser() error {
	if os.Getuid() != 0 {
		return nil
	}
	other, err := user.Lookup("postgres")
	if err != nil {
		other, err = user.Lookup("nobody")
	}
	if err != nil {
		return err
	}
	var ids [2]uint32
	for i, text := range []string{other.Uid, other.Gid} {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return err
		}
		ids[i] = uint32(n)
	}
	p.attributes.Credential = &syscall.Credential{Uid: ids[0], Gid: ids[1]}
	return os.Chown(p.folder, int(ids[0]), int(ids[1]))
}
