package reqid

import (
	"crypto/rand"
	_ "embed"
)

// Fragment is put in front of scripts that replay answers.
//
//go:embed reqid.lua
var Fragment string

// New returns a request id that nobody else has: 26 letters and digits.
func New() string { return rand.Text() }
