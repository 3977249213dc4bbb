package snapshot

import (
	"context"
	"io"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// fetch is a snapshot on its way from a member into the archive.
type fetch struct {
	name  archiveName
	addr  string // of the member
	draft *draft
	link  *link
}

// fetch requests a snapshot from a member. The error is errBusy if the member cannot begin
// one now, or if it began before: another replica has requested that.
func (w *work) fetch(ctx context.Context, name archiveName, addr string, before members.Report) (*fetch, error) {
	d, err := newDraft(w.k.cfg.Archive, name.String())
	if err != nil {
		return nil, err
	}
	l, err := w.pool.request(ctx, addr, w.k.silence)
	if err == nil && l.offset < before.End {
		l.close()
		err = errBusy
	}
	if err != nil {
		d.discard()
		return nil, err
	}
	return &fetch{name, addr, d, l}, nil
}

// finish takes the snapshot into the archive if it is complete, and removes the oldest ones.
// If it fails with an Archived, old snapshots could not be removed.
func (f *fetch) finish(ctx context.Context, cfg Config) (done directory.Archived, err error) {
	n, err := f.link.receive(f.draft)
	if err == nil {
		err = f.draft.Sync()
	}
	if err == nil {
		err = checkRDB(ctx, f.draft.Name(), n, io.Discard)
	}
	if err == nil {
		err = f.draft.keep()
	}
	switch {
	case ctx.Err() != nil:
		return done, context.Cause(ctx)
	case err != nil:
		return done, ErrArchive.Wrap(err)
	}
	done = directory.Archived{At: f.name.at, Addr: f.addr, File: f.name.String(), Bytes: n}
	if err := f.name.rotate(cfg.Archive, cfg.Keep); err != nil {
		return done, ErrArchive.Errorf("the snapshot was archived, but old ones could not be removed").Wrap(err)
	}
	return done, nil
}

// close discards an unfinished file.
func (f *fetch) close() {
	f.link.close()
	f.draft.discard()
}
