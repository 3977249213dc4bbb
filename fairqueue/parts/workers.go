package parts

import (
	"cmp"
	"sync"
	"weak"

	"github.com/millrace/millrace/fairqueue"
)

// workers are the named workers of Read. Each has a pool, which the parts share, for as long as a part knows it.
type workers struct {
	mu sync.Mutex
	of map[string]sharedWorker
}

type sharedWorker struct {
	handlers int
	pool     weak.Pointer[fairqueue.Pool]
}

// share has parts share the handlers of a worker.
func (w *workers) share(cfg fairqueue.ReadConfig, q *Queue) (fairqueue.ReadConfig, error) {
	if cfg.Worker == "" || cfg.Pool != nil {
		return cfg, nil
	}
	handlers := cmp.Or(cfg.Concurrency, defaultConcurrency)
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.of[cfg.Worker]; known.handlers == handlers {
		cfg.Pool = known.pool.Value()
	}
	if cfg.Pool != nil {
		return cfg, nil
	}
	pool, err := fairqueue.NewPool(handlers, q.Parts()...)
	if err != nil {
		return cfg, err
	}
	if w.of == nil {
		w.of = map[string]sharedWorker{}
	}
	for name, other := range w.of {
		if other.pool.Value() == nil {
			delete(w.of, name)
		}
	}
	w.of[cfg.Worker] = sharedWorker{handlers, weak.Make(pool)}
	cfg.Pool = pool
	return cfg, nil
}
