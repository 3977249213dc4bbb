package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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

// among returns the names that are archived snapshots of the same partition, newest first.
func (n archiveName) among(names []string) []string {
	var same []string
	for _, name := range names {
		if at, ok := strings.CutSuffix(name, n.suffix()); ok && len(at) == len(stamp) {
			same = append(same, name)
		}
	}
	slices.Sort(same)
	slices.Reverse(same)
	return same
}

// draft is an archived snapshot in the making, under another name:
//
//	     newDraft                keep                  rotate
//	(none) ─▶ NAME.XYZ.part ─▶ (on disk, checked) ─▶ NAME ─▶ (older ones are gone)
//	               └── discard ──▶ (none)
//
// The drafts of a keeper that died are removed a day later.
type draft struct {
	*os.File
	dir  string
	name archiveName
}

const part = ".part"

func newDraft(dir string, name archiveName) (*draft, error) {
	path := filepath.Join(dir, name.String()+"."+rand.Text()[:12]+part)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &draft{file, dir, name}, nil
}

// keep makes the draft an archived snapshot if it is complete and of that length. If it
// fails, discard removes the draft.
func (d *draft) keep(ctx context.Context, length int64) error {
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return err
	}
	if err := checkRDB(ctx, d.Name(), length); err != nil {
		return err
	}
	if err := os.Rename(d.Name(), filepath.Join(d.dir, d.name.String())); err != nil {
		return err
	}
	return syncFolder(d.dir)
}

// discard removes a draft that was not kept.
func (d *draft) discard() {
	d.Close()
	_ = os.Remove(d.Name())
}

// syncFolder syncs the names in a folder to disk.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// abandoned is the age from which a draft is not in use any more.
const abandoned = 24 * time.Hour

// rotate removes the oldest archived snapshots of the partition, and keeps that many.
func (d *draft) rotate(stay int) error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	var names []string
	var errs []error
	remove := func(name string) {
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, e := range entries {
		names = append(names, e.Name())
		if !strings.HasSuffix(e.Name(), part) || !strings.Contains(e.Name(), d.name.suffix()+".") {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			remove(e.Name())
		}
	}
	all := d.name.among(names)
	for _, name := range all[min(max(stay, 1), len(all)):] {
		remove(name)
	}
	return errors.Join(errs...)
}
