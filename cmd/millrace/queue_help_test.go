package main

import (
	"encoding/json"

	"github.com/millrace/millrace/internal/ops"
)

// writtenDoc is the document of queue write.
type writtenDoc struct {
	ID         string
	Duplicate  bool
	IDs        []string
	Duplicates int
}

// delivery is a message in the document of queue read.
type delivery struct {
	ID          string
	Receipt     string
	Tenant      json.RawMessage
	Body        json.RawMessage
	Attempt     int
	PickupDelay int64 `json:"pickup_delay_ms"`
	Headers     map[string]json.RawMessage
}

// deliveries is the document of queue read.
type deliveries struct {
	Messages []delivery
	Paused   bool
}

// take reads from a queue.
func (s shell) take(name string, args ...string) deliveries {
	s.t.Helper()
	return answer[deliveries](s, append([]string{"queue", "read", name}, args...)...)
}

// takeOne reads the one message that a queue has.
func (s shell) takeOne(name string, args ...string) delivery {
	s.t.Helper()
	got := s.take(name, args...)
	if len(got.Messages) != 1 {
		s.t.Fatalf("read = %+v, want one message", got)
	}
	return got.Messages[0]
}

// put writes a message and returns its id.
func (s shell) put(name, tenant, body string) string {
	s.t.Helper()
	return answer[writtenDoc](s, "queue", "write", name, "--tenant", tenant, "--body", body).ID
}

// wantSizes checks how many messages wait, are in flight, delayed and dead.
func (s shell) wantSizes(name string, waiting, inFlight, delayed, dead int) {
	s.t.Helper()
	got := answer[ops.QueueStats](s, "queue", "stats", name)
	sizes := [4]int{got.Waiting, got.InFlight, got.Delayed, got.Dead}
	if want := [4]int{waiting, inFlight, delayed, dead}; sizes != want {
		s.t.Errorf("waiting, in flight, delayed, dead = %v, want %v", sizes, want)
	}
}
