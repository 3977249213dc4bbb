package scatter

import "github.com/millrace/millrace/internal/script"

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

// values reads what a server has of each key.
func (g *Gather) values(reply *script.Reply) ([]value, error) {
	values := make([]value, len(g.asks))
	for i := range values {
		state := int(reply.Int())
		values[i] = value{texts: reply.Texts(), bad: state < 0, many: max(0, state)}
	}
	return values, reply.Err()
}
