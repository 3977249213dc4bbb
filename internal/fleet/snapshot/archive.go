package snapshot

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// archiveName is the name of a file in the archive. Names sort by the age of the data.
//
//	20260314T150926.535Z-FLEET-PARTITION.rdb
type archiveName struct {
	fleet     string
	partition int
	at        time.Time
}

const stamp = "20060102T150405.000Z"

func (n archiveName) String() string { return n.at.UTC().Format(stamp) + n.suffix() }

func (n archiveName) suffix() string {
	return "-" + url.PathEscape(n.fleet) + "-" + strconv.Itoa(n.partition) + ".rdb"
}

// rotate removes the oldest archived snapshots of the partition, and keeps that many.
func (n archiveName) rotate(dir string, stay int) error {
	entries, err := os.ReadDir(dir) // sorted by name, so the oldest come first
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if at, ok := strings.CutSuffix(e.Name(), n.suffix()); ok && len(at) == len(stamp) {
			names = append(names, e.Name())
		}
	}
	var errs []error
	for _, name := range names[:max(0, len(names)-max(stay, 1))] {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// draft is a file of the archive in the making, under another name:
//
//	     newDraft            keep
//	(none) ─▶ NAME.XYZ.part ─▶ NAME, on disk
//	               └─ discard ─▶ (none)
type draft struct {
	*os.File

	path string // of the file that it becomes
}

const (
	// part ends the name of a draft.
	part = ".part"

	// abandoned is the age from which a draft is not in use any more: its keeper died.
	abandoned = 24 * time.Hour
)

// newDraft creates a draft, and removes those that keepers left when they died.
func newDraft(dir, name string) (*draft, error) {
	entries, _ := os.ReadDir(dir) // the next draft sees them, too
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), part) || !strings.Contains(e.Name(), ".rdb.") && !strings.Contains(e.Name(), mapSuffix+".") {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	path := filepath.Join(dir, name)
	file, err := os.OpenFile(path+"."+rand.Text()[:12]+part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &draft{file, path}, nil
}

// keep gives the draft its name, in place of an older file, and syncs both to disk.
func (d *draft) keep() error {
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return err
	}
	if err := os.Rename(d.Name(), d.path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(d.path))
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// discard removes a draft that was not kept.
func (d *draft) discard() {
	d.Close()
	_ = os.Remove(d.Name())
}
