package failover

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// action is one thing to do in a partition.
type action interface{ isAction() }

// Actions. Those on servers name the run that they are for: in another one they do nothing.
type (
	// change changes the partition in the map, unless it has another epoch by now.
	change struct {
		edit     func(p *directory.Partition)
		say      []string // in the log of the directory, when it is done
		mine     bool     // whether it makes the partition read-only for this agent
		same     bool     // whether it is for a task, and not made if that has changed
		endsTurn bool     // whether it ends the turn of a restart
	}

	// isolate fences a member that no client may read.
	isolate struct {
		member directory.Member
		say    string // in the log of the directory, when it is done; empty for nothing
	}

	fence struct{} // all members that answer, and collects their reports
	lead  struct { // makes an elected member take writes
		addr, run string
		beat      members.Beat
		restored  bool
	}
	tell struct{ addr string } // Config.Restored about the elected member
	need struct {
		addr     string
		replicas int
	} // sets how many replicas a master needs to take writes
	follow struct{ addr, run string } // has a replica follow the master in that run, in the turn of its node
	admit  struct{ addr, run string } // lets a replica log in to the master in that run
	serve  struct{ addr, run string } // lets a replica be read
	retire struct{ addr, run string } // takes the identity of a former member away

	takeTurn struct{} // of restarts, in the fleet
	endTurn  struct{}
	endCopy  struct{} // gives up the turn of the master's node
	shutDown struct{ directory.Restart }

	look  struct{ after time.Duration } // at the members again, after that time
	waits struct{ why string }          // for something that only another event can bring
	stuck struct{ why error }           // no member can be elected: all is tried again
)

func (change) isAction()   {}
func (isolate) isAction()  {}
func (fence) isAction()    {}
func (lead) isAction()     {}
func (tell) isAction()     {}
func (need) isAction()     {}
func (follow) isAction()   {}
func (admit) isAction()    {}
func (serve) isAction()    {}
func (retire) isAction()   {}
func (takeTurn) isAction() {}
func (endTurn) isAction()  {}
func (endCopy) isAction()  {}
func (shutDown) isAction() {}
func (look) isAction()     {}
func (waits) isAction()    {}
func (stuck) isAction()    {}

// key tells actions apart that are tried once a round.
func key(a action) string { return fmt.Sprintf("%T %v", a, a) }
