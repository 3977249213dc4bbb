package script

import (
	"errors"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
)

// named are the errors that all structures share, by the codes with which servers and
// scripts begin theirs.
var named = map[string]*millrace.Error{
	"OOM":       millrace.ErrFull,
	"VERSION":   millrace.ErrVersion,
	"BROKEN":    millrace.ErrBroken,
	"WRONGTYPE": millrace.ErrBroken,
	"LANE":      millrace.ErrUncertain,
}

// Name gives an error of a server or a script the name that programs know it by: the
// structure's own, or one that all share. A server that refuses the call for now is
// unavailable, with any code.
func (r *Runner) Name(err error) error {
	if err == nil {
		return nil
	}
	for _, table := range []map[string]*millrace.Error{r.Errors, named} {
		for code, sentinel := range table {
			if errors.Is(err, sentinel) {
				return err // a fleet has named it
			}
			if retry.Code(err, code) {
				return sentinel.Wrap(err)
			}
		}
	}
	if _, refused := errors.AsType[*rueidis.RedisError](err); refused && millrace.Code(err) == "" && retry.Transient(err) {
		return millrace.ErrUnavailable.Wrap(err)
	}
	return err
}
