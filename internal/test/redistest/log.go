package redistest

import (
	"bytes"
	"strings"
	"sync"
)

// Log collects the writes of goroutines. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is [io.Writer]'s.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often a text was written so far.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
