package directorytest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Memory is a store in this process. The zero value is empty.
type Memory struct {
	mu       sync.Mutex
	values   map[string]directory.Value
	revision int
	holds    map[string]hold
}

type hold struct {
	by    string
	until time.Time
}

// Get implements directory.Store.
func (s *Memory) Get(_ context.Context, _ directory.Read, names ...string) ([]directory.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := make([]directory.Value, len(names))
	for i, name := range names {
		values[i] = s.values[name]
	}
	return values, nil
}

// Put implements directory.Store.
func (s *Memory) Put(_ context.Context, revision string, texts ...directory.Text) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.values[texts[0].Name]; first.Revision != "" && first.Text == texts[0].Text || first.Revision != revision {
		return first.Text == texts[0].Text && first.Revision != "", nil
	}
	if s.values == nil {
		s.values = map[string]directory.Value{}
	}
	s.revision++
	for _, t := range texts {
		s.values[t.Name] = directory.Value{Text: t.Text, Revision: strconv.Itoa(s.revision)}
	}
	return true, nil
}

// Hold implements directory.Store.
func (s *Memory) Hold(_ context.Context, name, holder string, ttl time.Duration) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := s.holds[name]
	if !time.Now().Before(present.until) {
		present.by = ""
	}
	if holder == "" || present.by != "" && present.by != holder {
		return present.by, nil
	}
	if ttl == 0 {
		delete(s.holds, name)
		return "", nil
	}
	if s.holds == nil {
		s.holds = map[string]hold{}
	}
	s.holds[name] = hold{holder, time.Now().Add(ttl)}
	return holder, nil
}

// Examine implements directory.Store. It finds nothing.
func (s *Memory) Examine(context.Context, time.Duration) []directory.Remark { return nil }

// Close implements directory.Store.
func (s *Memory) Close() {}
