package fairqueue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace"
)

// Typed is a queue whose bodies are values of one type, as JSON.
type Typed[T any] struct{ Queue *Queue }

// Write writes a value as the body of a draft, whose other fields count.
func (t Typed[T]) Write(ctx context.Context, value T, d Draft) (string, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return "", millrace.ErrBadArgument.Errorf("the value cannot be written as JSON").Wrap(err)
	}
	d.Body = body
	return t.Queue.Write(ctx, d)
}

// Consume is [Queue.Consume] with the value that the body holds. A body that is
// no such value is dead at once: no further try would read it.
func (t Typed[T]) Consume(ctx context.Context, cfg ConsumeConfig, handler func(ctx context.Context, m Message, value T) error) error {
	return t.Queue.Consume(ctx, cfg, func(ctx context.Context, m Message) error {
		var value T
		if err := json.Unmarshal(m.Body, &value); err != nil {
			return Dead(fmt.Errorf("the body is no %T: %w", value, err))
		}
		return handler(ctx, m, value)
	})
}
