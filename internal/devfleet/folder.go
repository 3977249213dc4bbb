package devfleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/millrace/millrace"
)

// ErrFolderInUse means that a folder holds what a fleet left there, or that one
// works there now. Nothing was started.
var ErrFolderInUse = &millrace.Error{
	Code: "exists",
	Hint: "Use another folder, or remove it: a fleet on one machine begins empty each time.",
}

// folder is where a fleet's servers work.
type folder struct {
	path  string
	given bool // it is the caller's
}

// directoryFolder is the one of the directory, and the mark of a folder in use.
const directoryFolder = "directory"

// claim takes a folder for a fleet, a new one if none is given.
func claim(given string) (folder, error) {
	if given == "" {
		path, err := os.MkdirTemp("", "millrace-fleet-")
		return folder{path: path}, inFolder(err)
	}
	path, err := filepath.Abs(given)
	if err != nil {
		return folder{}, inFolder(err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return folder{}, inFolder(err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return folder{}, inFolder(err)
	}
	for _, e := range entries {
		if node, _ := filepath.Match("node-*", e.Name()); node || e.Name() == directoryFolder {
			return folder{}, ErrFolderInUse.Errorf("there is a fleet's %s in %s", e.Name(), path)
		}
	}
	return folder{path: path, given: true}, nil
}

func inFolder(err error) error {
	if err != nil {
		return fmt.Errorf("devfleet: folder: %w", err)
	}
	return nil
}

// of returns where a server works.
func (f folder) of(s Server) string {
	if s.Role == Directory {
		return filepath.Join(f.path, directoryFolder)
	}
	return filepath.Join(f.path, s.Node, fmt.Sprintf("partition-%d", s.Partition))
}

// make makes the folder of a server, which must not be there.
func (f folder) make(s Server) error {
	path := f.of(s)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return inFolder(err)
	}
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return ErrFolderInUse.Errorf("there is a fleet's folder already: %s", path)
	}
	return inFolder(err)
}

// unmake removes the folder of a server, and that of its node when it was the last
// one there.
func (f folder) unmake(s Server) error {
	path := f.of(s)
	if err := removeAll(path); err != nil {
		return err
	}
	if s.Role != Directory {
		_ = os.Remove(filepath.Dir(path)) // fails if others are there
	}
	return nil
}

// release removes all of a folder that is not the caller's.
func (f folder) release() error {
	if f.given {
		return nil
	}
	return removeAll(f.path)
}

// removeAll removes a folder. The child of a server that had to be killed may be
// writing a snapshot there for a moment more.
func removeAll(path string) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := os.RemoveAll(path)
		if !errors.Is(err, syscall.ENOTEMPTY) || time.Since(began) > 2*time.Second {
			return err
		}
	}
}
