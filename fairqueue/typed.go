package fairqueue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace"
)

// Typed is a queue whose bodies are values of one type, encoded as JSON.
type Typed[T any] struct{ Queue *Queue }

// Write writes a draft whose body is the value.
func (t Typed[T]) Write(ctx context.Context, value T, d Draft) (string, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return "", millrace.ErrBadArgument.Errorf("the value cannot be encoded as JSON").Wrap(err)
	}
	d.Body = body
	return t.Queue.Write(ctx, d)
}

// Consume is [Queue.Consume] with the decoded body. A message whose body cannot be decoded is
// dead at once.
func (t Typed[T]) Consume(ctx context.Context, cfg ConsumeConfig, handler func(ctx context.Context, msg Message, value T) error) error {
	return t.Queue.Consume(ctx, cfg, t.Handler(handler))
}

// Handler returns the handler with which [Typed.Consume] calls the given one.
func (t Typed[T]) Handler(handler func(ctx context.Context, msg Message, value T) error) Handler {
	return func(ctx context.Context, msg Message) error {
		var value T
		if err := json.Unmarshal(msg.Body, &value); err != nil {
			return NoRetry(fmt.Errorf("the body is not a %T: %w", value, err))
		}
		return handler(ctx, msg, value)
	}
}
