package scatter

import (
	"fmt"

	"github.com/redis/rueidis"
)

// answers are what the servers answered to a gather. The lists are by server.
type answers struct {
	g      *Gather
	values [][]value // of each ask; nil of a server that did not answer
	failed []error   // why it did not
}

// missing is a *PartialError if any of the servers did not answer.
func (a *answers) missing() error { return partial(a.g.s.servers, a.failed) }

// value is what a server has of a key.
type value struct {
	texts []string
	bad   bool // it is something else
	many  int  // it has so many members, and they are too many to be sent
}

// part is a value that counts, and where it comes from.
type part struct {
	server, key string
	value
}

// parts returns what the servers that answered have of a key, in their order.
func (a *answers) parts(i int) []part {
	var parts []part
	for j, values := range a.values {
		if values != nil {
			parts = append(parts, part{a.g.s.servers[j].Name, a.g.asks[i].key, values[i]})
		}
	}
	return parts
}

// parseReply reads what a server answered to so many questions.
func parseReply(message rueidis.RedisMessage, asked int) ([]value, error) {
	all, err := message.ToArray()
	if err != nil {
		return nil, err
	}
	if len(all) != asked {
		return nil, fmt.Errorf("%d answers to %d questions", len(all), asked)
	}
	values := make([]value, asked)
	for i, m := range all {
		if values[i], err = parseValue(m); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// parseValue reads what a server has of one key.
func parseValue(m rueidis.RedisMessage) (value, error) {
	switch {
	case m.IsNil():
		return value{}, nil
	case m.IsInt64():
		n, err := m.AsInt64()
		return value{bad: n == 0, many: int(n)}, err
	case m.IsString():
		text, err := m.ToString()
		return value{texts: []string{text}}, err
	}
	texts, err := m.AsStrSlice()
	return value{texts: texts}, err
}
