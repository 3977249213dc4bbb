package scatter

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

var (
	//go:embed epoch.lua
	epochFragment string
	//go:embed number.lua
	numberFragment string
	//go:embed close.lua
	closeSource string
	//go:embed join.lua
	joinSource string
	//go:embed take.lua
	takeSource string
	//go:embed put.lua
	putSource string
	//go:embed done.lua
	doneSource string
	//go:embed finish.lua
	finishSource string
	//go:embed part.lua
	partSource string
	//go:embed reopen.lua
	reopenSource string
	//go:embed reset.lua
	resetSource string
	//go:embed epochs.lua
	epochsSource string
	//go:embed date.lua
	dateSource string
)

// moves are the scripts that move values: to other servers, and into other epochs.
type moves struct{ close, join, take, put, done, finish, part, reopen, reset, epochs, date *script.Script }

var standardMoves = &moves{
	close:  script.New("scatter.close", closeSource, openFragment),
	join:   script.New("scatter.join", joinSource, openFragment),
	take:   script.New("scatter.take", takeSource, openFragment, epochFragment, numberFragment),
	put:    script.New("scatter.put", putSource, openFragment, epochFragment, numberFragment),
	done:   script.New("scatter.done", doneSource, openFragment),
	finish: script.New("scatter.finish", finishSource, openFragment),
	part:   script.New("scatter.part", partSource, openFragment),
	reopen: script.New("scatter.reopen", reopenSource, openFragment),
	reset:  script.New("scatter.reset", resetSource, openFragment, epochFragment),
	epochs: script.New("scatter.epochs", epochsSource, openFragment),
	date:   script.New("scatter.date", dateSource, openFragment),
}

// parcel is a part of a value on its way to another server.
type parcel struct {
	key    string
	number string
	target string // the name of the server that is to get it

	// What follows goes to the target as it is.
	merge, epoch, kind, ends string
	elements                 []string
}

// size counts its elements.
func (p *parcel) size() int64 {
	if p.kind == "zset" {
		return int64(len(p.elements) / 2) // members and scores
	}
	return int64(len(p.elements))
}

// departure is a server that leaves, and the fold that is under way there.
type departure struct {
	sc      *Scatter
	leaving *server
	fold    string
}

// take returns the parcel of a key that is on its way, and takes one for a target if
// there is none, and a target. It reports whether there is one, and returns a *leftError
// for what cannot be folded.
func (d *departure) take(ctx context.Context, key, target string, merge Merge) (p *parcel, found bool, err error) {
	reply, err := d.sc.run(ctx, d.leaving, d.sc.moves.take, d.sc.base, d.fold, key, target, merge.word())
	if err != nil {
		return nil, false, err
	}
	parts, err := answers(reply)
	switch {
	case err == nil && len(parts) == 1 && parts[0] == "none":
		return nil, false, nil
	case err == nil && len(parts) == 1 && parts[0] == "ended":
		return nil, false, d.over()
	case err == nil && len(parts) == 2 && parts[0] == "left":
		return nil, false, &leftError{cause: unfit(parts[1])}
	case err != nil || len(parts) < 7 || parts[0] != "parcel":
		return nil, false, fmt.Errorf("server %s answered %.100q to take: %w", d.leaving.Name, parts, err)
	}
	return &parcel{
		key: key, number: parts[1], target: parts[2], merge: parts[3],
		epoch: parts[4], kind: parts[5], ends: parts[6], elements: parts[7:],
	}, true, nil
}

// send takes a parcel, as take does, and delivers it.
func (d *departure) send(ctx context.Context, key, target string, merge Merge) (p *parcel, found bool, err error) {
	p, found, err = d.take(ctx, key, target, merge)
	if err == nil && found {
		err = d.deliver(ctx, p)
	}
	return p, found, err
}

// deliver puts a parcel down and removes it from where it came. It returns a *leftError
// if its target cannot take it; then the parcel stays where it is.
func (d *departure) deliver(ctx context.Context, p *parcel) error {
	target := d.sc.named(p.target)
	if target == nil {
		return errAbsent(d.leaving.Name, p.target)
	}
	owner, epoch := p.key, p.epoch
	if o, e, ended := cutEnded(d.sc.base, p.key); ended {
		owner, epoch = o, e
	}
	args := []string{d.sc.base, d.leaving.Name, d.fold, p.key, p.number, p.merge, owner, epoch, p.kind, p.ends}
	reply, err := d.sc.run(ctx, target, d.sc.moves.put, append(args, p.elements...)...)
	if err != nil {
		return err
	}
	switch answer, err := reply.ToString(); {
	case err != nil:
		return fmt.Errorf("server %s answered to put: %w", target.Name, err)
	case answer == "ended":
		return d.over()
	case answer == "undated":
		if err := d.sc.date(ctx, []string{owner}); err != nil {
			return err
		}
		again, found, err := d.take(ctx, p.key, "", Sum) // which tells its epoch now
		if err != nil || !found {
			return err
		}
		return d.deliver(ctx, again)
	case answer == "type":
		return &leftError{cause: ErrType.Saying("server %s, to which it goes, has something else of that name", target.Name), stuck: true}
	case answer == "overflow":
		return &leftError{cause: ErrOverflow.Saying("with what server %s has, to which it goes, the sum does not fit", target.Name), stuck: true}
	case answer != "done":
		return fmt.Errorf("server %s answered %q to put", target.Name, answer)
	}
	_, err = d.sc.run(ctx, d.leaving, d.sc.moves.done, d.sc.base, p.key, p.number)
	return err
}

// over is the error for a fold that somebody else has brought to its end.
func (d *departure) over() error {
	return ErrFold.Saying("another call has ended the fold of server %s meanwhile", d.leaving.Name)
}

// errAbsent is the error for a server to which parcels go, and which is not in the list.
func errAbsent(leaving, target string) error {
	return ErrFold.Saying("the fold of server %s has begun with server %q, which is not in the list", leaving, target)
}

// leftError says why a key stays where it is.
type leftError struct {
	cause error
	stuck bool // a parcel of it is on its way
}

func (e *leftError) Error() string { return e.cause.Error() }
func (e *leftError) Unwrap() error { return e.cause }

// unfit is why a value cannot be folded, by what take.lua says.
func unfit(why string) error {
	switch why {
	case "text":
		return ErrType.Saying("it is a text that is no number")
	case "entry":
		return ErrType.Saying("it is a list with entries that do not begin with their time")
	case "long":
		return ErrType.Saying("it is a list of more than %d entries", MaxCap)
	}
	return ErrType.Saying("it is a %s", why)
}

// cutEnded returns of which key, and of which epoch, an ended value is.
func cutEnded(base, name string) (key, epoch string, ok bool) {
	rest, ok := strings.CutPrefix(name, endedPrefix(base))
	if ok {
		epoch, key, ok = strings.Cut(rest, ":")
	}
	return key, epoch, ok
}

// named returns the server of that name, nil if there is none.
func (s *Scatter) named(name string) *server {
	for _, one := range s.servers {
		if one.Name == name {
			return one
		}
	}
	return nil
}

// word is how scripts call a way to merge.
func (m Merge) word() string {
	switch m {
	case Max:
		return "max"
	case Min:
		return "min"
	case Sum:
	}
	return "sum"
}

// answers returns what a script answers with as texts, numbers among them.
func answers(reply rueidis.RedisMessage) ([]string, error) {
	list, err := reply.ToArray()
	if err != nil {
		return nil, err
	}
	all := make([]string, len(list))
	for i, one := range list {
		if all[i], err = one.ToString(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
