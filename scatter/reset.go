package scatter

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/retry"
)

// EndedLife is for how long what a reset has put aside is kept.
const EndedLife = 24 * time.Hour

// Reset begins an epoch of some keys, on all servers: what they had is put aside, and
// they count from nothing. Epochs are numbers above 0 that grow: a day, a season, a
// count of resets. A key that is in that epoch already, or in a later one, is left
// alone, so the same call again does nothing more.
//
// Whatever is written meanwhile is either in what was put aside or in the new epoch.
// A gather counts a server whose key is in an earlier epoch than on another one for
// nothing, so from the first server on that has been reset, readers see the new epoch
// only. What was put aside is read under the names that [Ended] returns, for
// [EndedLife], and is whole when Reset has returned without an error.
//
// All servers must answer. If some do not, the error is a [*PartialError] that names
// them, others may have been reset, and the same call again finishes it. Do that before
// the next epoch, and with all servers that are written to.
//
// Other errors: [ErrName] and [ErrConfig], before anything is sent.
func (s *Scatter) Reset(ctx context.Context, epoch int64, keys ...string) error {
	if epoch < 1 {
		return ErrConfig.Saying("an epoch is a number above 0, not %d", epoch)
	}
	for _, key := range keys {
		if err := checkTarget(key); err != nil {
			return err
		}
	}
	if err := s.date(ctx, keys); err != nil {
		return err
	}
	return s.onAll(func(_ int, one *server) error {
		return s.resetOn(ctx, one, strconv.FormatInt(epoch, 10), keys)
	})
}

// onAll does something with all servers at the same time.
func (s *Scatter) onAll(do func(i int, one *server) error) error {
	errs := make([]error, len(s.servers))
	var wg sync.WaitGroup
	for i, one := range s.servers {
		wg.Go(func() { errs[i] = do(i, one) })
	}
	wg.Wait()
	return partial(s.servers, errs)
}

// date makes sure that all servers know in which epoch the keys are, before one of them
// begins another. A server that is new in the group does not, and what it has counts as
// of the epoch of the others; from here on it can be told from one that is not reset
// yet.
func (s *Scatter) date(ctx context.Context, keys []string) error {
	for some := range slices.Chunk(keys, 1000) {
		known := make([][]string, len(s.servers))
		err := s.onAll(func(i int, one *server) (err error) {
			known[i], err = s.epochsOn(ctx, one, some)
			return err
		})
		if err != nil {
			return err
		}
		latest := make([]string, len(some))
		for k := range some {
			latest[k] = "0"
			for i := range known {
				if later(known[i][k], latest[k]) {
					latest[k] = known[i][k]
				}
			}
		}
		err = s.onAll(func(i int, one *server) error {
			var missing []string
			for k, key := range some {
				if known[i][k] == "" {
					missing = append(missing, key, latest[k])
				}
			}
			if missing == nil {
				return nil
			}
			_, err := s.run(ctx, one, s.moves.date, append([]string{s.base}, missing...)...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// later reports whether an epoch comes after another one; they are decimals.
func later(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// epochsOn returns the epochs that a server knows of keys, "" for none.
func (s *Scatter) epochsOn(ctx context.Context, one *server, keys []string) ([]string, error) {
	reply, err := s.run(ctx, one, s.moves.epochs, append([]string{s.base}, keys...)...)
	if err != nil {
		return nil, err
	}
	return answers(reply)
}

// Ended returns the name under which a gather finds what a key had when it was reset to
// that epoch.
func (s *Scatter) Ended(epoch int64, key string) string {
	return endedKey(s.base, strconv.FormatInt(epoch, 10), key)
}

// resetOn resets keys on one server.
func (s *Scatter) resetOn(ctx context.Context, one *server, epoch string, keys []string) error {
	for some := range slices.Chunk(keys, 1000) {
		for tries := 1; ; tries++ {
			reply, err := s.run(ctx, one, s.moves.reset, append([]string{s.base, epoch}, some...)...)
			if err != nil {
				return err
			}
			waiting, err := answers(reply)
			if err != nil {
				return err
			}
			if some = waiting[1:]; len(some) == 0 {
				break
			}
			err = s.arrive(ctx, one, waiting[0], some)
			if err != nil && (!errors.Is(err, ErrFold) || tries == 10) { // which may have ended meanwhile
				return err
			}
			if !retry.Sleep(ctx, retry.Policy{}.Pause(tries)) {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// arrive delivers the parcels of some keys of a server that leaves: whoever has taken
// them may have been killed.
func (s *Scatter) arrive(ctx context.Context, one *server, fold string, keys []string) error {
	d := &departure{sc: s, leaving: one, fold: fold}
	for _, key := range keys {
		if _, _, err := d.send(ctx, key, "", Sum); err != nil {
			return err
		}
	}
	return nil
}
