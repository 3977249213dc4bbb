package document

import "time"

// CounterServers is what servers have left of what was scattered over them.
type CounterServers struct {
	Servers []CounterServer `json:"servers"`
}

// CounterServer is what one of them has left.
type CounterServer struct {
	Server  string     `json:"server" example:"10.0.0.1:6379"`
	Flushes int64      `json:"flushes" doc:"How many there were. It grows as long as anybody writes there." example:"20"`
	Until   *time.Time `json:"until,omitempty" doc:"When the last value in a time bucket ends, by the server's clock. Absent if there were none."`
	Forever bool       `json:"forever" doc:"Whether values without an end were written. They do not go by themselves."`
	Empty   bool       `json:"empty" doc:"Whether nothing was written, or all of it has ended."`
}

// Counted is what servers have of a counter together.
type Counted struct {
	Value    int64 `json:"value" doc:"The sum." example:"20"`
	Servers  int   `json:"servers" doc:"How many servers there are." example:"3"`
	Answered int   `json:"answered" doc:"How many of them are in the sum." example:"3"`
}

// Counter is what was added to a counter, and where.
type Counter struct {
	Added  int64  `json:"added" example:"3"`
	Server string `json:"server" doc:"The server that it was added on." example:"10.0.0.1:6379"`
}
