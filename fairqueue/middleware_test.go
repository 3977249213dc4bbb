package fairqueue

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// TestChain: the first middleware is the outermost, and each may change the context and the
// error, or end the chain.
func TestChain(t *testing.T) {
	t.Parallel()
	type key struct{}
	var seen []string
	log := func(name string) func(Handler) Handler {
		return func(next Handler) Handler {
			return func(ctx context.Context, m Message) error {
				seen = append(seen, name)
				err := next(context.WithValue(ctx, key{}, name), m)
				seen = append(seen, name)
				return err
			}
		}
	}
	skip := func(next Handler) Handler {
		return func(ctx context.Context, m Message) error {
			if m.Tenant == "skip" {
				return nil
			}
			return next(ctx, m)
		}
	}
	failed := errors.New("failed")
	handler := Chain(func(ctx context.Context, _ Message) error {
		seen = append(seen, "handler in "+ctx.Value(key{}).(string))
		return failed
	}, log("a"), skip, log("b"))

	if err := handler(t.Context(), Message{Tenant: "acme"}); !errors.Is(err, failed) {
		t.Errorf("the error is %v, want that of the handler", err)
	}
	if err := handler(t.Context(), Message{Tenant: "skip"}); err != nil {
		t.Errorf("the error of a message that is skipped is %v", err)
	}
	if want := []string{"a", "b", "handler in b", "b", "a", "a", "a"}; !slices.Equal(seen, want) {
		t.Errorf("the order is %v, want %v", seen, want)
	}
	if Chain(func(context.Context, Message) error { return failed })(t.Context(), Message{}) != failed {
		t.Error("a chain without middleware is not the handler")
	}
}
