package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// mapSuffix ends the name of the file in the archive that has a copy of a fleet's map,
// FLEET.map, for the case that the directory loses its data.
const mapSuffix = ".map"

// archiveMap keeps a copy of the map in the archive: the file has the newest one that any
// keeper has seen. A failure goes to the log, once.
func (w *work) archiveMap(ctx context.Context, m *directory.Map) {
	if w.k.cfg.Archive == "" {
		return
	}
	why := ""
	if err := archiveMap(w.k.cfg.Archive, m); err != nil {
		why = err.Error()
	}
	if why != "" && why != w.noMap {
		w.k.cfg.Logger.WarnContext(ctx, "the archive takes no copy of the map", "error", why)
	}
	w.noMap = why
}

// archiveMap replaces the file if its map is older. Of two keepers that do so at the same
// time the later one may store an older map, and replaces it the next time.
func archiveMap(dir string, m *directory.Map) error {
	name := url.PathEscape(m.Fleet) + mapSuffix
	present, err := os.ReadFile(filepath.Join(dir, name))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case members.ParseCopy(string(present)).Epoch >= m.Epoch: // 0 if it cannot be decoded
		return nil
	}
	text, err := m.Pack()
	if err != nil {
		return err
	}
	draft, err := newDraft(dir, name)
	if err != nil {
		return err
	}
	defer draft.discard()
	if _, err := draft.WriteString(members.Copy{Epoch: m.Epoch, Text: text}.String()); err != nil {
		return err
	}
	return draft.keep()
}

// Maps returns the copies of maps in an archive, by the names of their files. A file that
// cannot be read as a map is in the error, after the others.
func Maps(dir string) (map[string]*directory.Map, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	maps := map[string]*directory.Map{}
	var failed error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), mapSuffix) {
			continue
		}
		stored, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			maps[e.Name()], err = directory.Unpack(members.ParseCopy(string(stored)).Text)
		}
		if err != nil {
			delete(maps, e.Name())
			failed = errors.Join(failed, ErrArchive.Errorf("%s has no map that can be used", e.Name()).Wrap(err))
		}
	}
	return maps, failed
}
