package snapshot

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// fetch takes one snapshot into the archive.
type fetch struct {
	addr  string
	stay  int
	draft *draft // nil without an archive
	link  *link
	err   error // why nothing is fetched in spite of one
}

// ask requests a snapshot from a member, to be fetched if there is an archive. If the archive
// cannot be written, or the member sends nothing, the snapshot stays on the member's disk.
func (w *work) ask(ctx context.Context, name archiveName, addr string, before members.Report) (*fetch, error) {
	f := &fetch{addr: addr, stay: w.k.cfg.Keep}
	if w.k.cfg.Archive == "" {
		return f, w.pool.bgsave(ctx, addr)
	}
	if f.draft, f.err = newDraft(w.k.cfg.Archive, name); f.err != nil {
		return f, w.pool.bgsave(ctx, addr)
	}
	f.link, f.err = w.pool.request(ctx, addr, w.k.silence)
	switch {
	case f.err == nil && f.link.offset >= before.End:
		return f, nil
	case f.err == nil: // it is a snapshot that another replica requested before
		f.close()
		return nil, errBusy
	case ctx.Err() != nil || errors.Is(f.err, errBusy):
		f.close()
		return nil, f.err
	default:
		f.close()
		f.draft = nil
		return f, w.pool.bgsave(ctx, addr)
	}
}

// finish takes the snapshot into the archive. If it fails with an Archived, old snapshots
// could not be removed.
func (f *fetch) finish(ctx context.Context, at time.Time) (done directory.Archived, err error) {
	switch {
	case f.err != nil:
		return done, ErrArchive.Wrap(f.err)
	case f.draft == nil:
		return done, nil
	}
	n, err := f.link.receive(f.draft)
	if err == nil {
		err = f.draft.keep(ctx, n)
	}
	switch {
	case ctx.Err() != nil:
		return done, context.Cause(ctx)
	case err != nil:
		return done, ErrArchive.Wrap(err)
	}
	done = directory.Archived{At: at, Addr: f.addr, File: f.draft.name.String(), Bytes: n}
	if err := f.draft.rotate(f.stay); err != nil {
		return done, ErrArchive.Errorf("the snapshot was archived, but old ones could not be removed").Wrap(err)
	}
	return done, nil
}

// close discards what is not finished.
func (f *fetch) close() {
	if f.link != nil {
		f.link.close()
	}
	if f.draft != nil {
		f.draft.discard()
	}
}
