package script

import "context"

type losable struct{}

// Losable returns a context for commands whose reply may get lost together with what they took, such as wake-ups. So
// they need not wait for replicas.
func Losable(ctx context.Context) context.Context { return context.WithValue(ctx, losable{}, true) }

// IsLosable reports whether a context is one that Losable returned, or was made of it.
func IsLosable(ctx context.Context) bool { return ctx.Value(losable{}) != nil }
