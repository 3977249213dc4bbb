package document

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
