package wake

import (
	"log/slog"
	"reflect"
	"sync"

	"github.com/redis/rueidis"
)

// maxClients is how many clients' hubs are kept at hand.
const maxClients = 64

// hubs are those of the clients that were used last. It is a package's variable because
// the users of a client have nothing else in common.
var hubs struct {
	mu   sync.Mutex
	of   map[rueidis.Client]*Hub
	last []rueidis.Client // the ones that were made last come last
}

// Of returns the client's hub. It asks nothing of Redis. The logger, or slog.Default(), is
// told once if the server refuses; the first one is.
func Of(client rueidis.Client, logger *slog.Logger) *Hub {
	if client == nil || !reflect.ValueOf(client).Comparable() {
		return newHub(client, logger) // one of its own
	}
	hubs.mu.Lock()
	defer hubs.mu.Unlock()
	if h := hubs.of[client]; h != nil {
		return h
	}
	if hubs.of == nil {
		hubs.of = map[rueidis.Client]*Hub{}
	}
	if len(hubs.last) == maxClients {
		delete(hubs.of, hubs.last[0])
		hubs.last = append(hubs.last[:0], hubs.last[1:]...)
	}
	h := newHub(client, logger)
	hubs.of[client] = h
	hubs.last = append(hubs.last, client)
	return h
}
