package directory

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestTurnIsKept: a turn that lasts is renewed.
func TestTurnIsKept(t *testing.T) {
	t.Parallel()
	store := &fakeStore{calls: make(chan holdCall, 10)}
	dir := New(store)
	end, err := takeTurn(t.Context(), dir, "n", 30*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	first := <-store.calls
	for range 3 {
		if again := <-store.calls; again != first {
			t.Errorf("renewed by %+v, want %+v", again, first)
		}
	}
	end()
	var last holdCall
	for len(store.calls) > 0 {
		last = <-store.calls
	}
	if want := (holdCall{"turn/n", first.holder, 0}); last != want {
		t.Errorf("ended by %+v, want %+v", last, want)
	}
	store.taken = true
	if _, err := takeTurn(t.Context(), dir, "n", time.Minute); !errors.Is(err, ErrTurn) {
		t.Errorf("turn of another: %v, want ErrTurn", err)
	}
}

type holdCall struct {
	name, holder string
	ttl          time.Duration
}

type fakeStore struct {
	Store

	calls chan holdCall
	taken bool
}

func (s *fakeStore) Hold(_ context.Context, name, holder string, ttl time.Duration) (string, error) {
	if s.taken {
		return "another", nil
	}
	s.calls <- holdCall{name, holder, ttl}
	if ttl == 0 {
		return "", nil
	}
	return holder, nil
}
