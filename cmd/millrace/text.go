package main

import (
	"math"
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/readable"
)

// decodeText reads an argument or a flag that is bytes; kong calls it.
func decodeText(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := jsontype.ParseText(word(ctx))
	target.SetString(string(text))
	return err
}

// word returns the word of the command line that is to be read.
func word(ctx *kong.DecodeContext) string {
	arg, _ := ctx.Scan.Pop().Value.(string)
	return arg
}

// age returns how long before now a score lies, if the score is a time at all:
// scores that are some other order would be centuries away.
func age(s jsontype.Score, now time.Time) string {
	const century = 100 * 365 * 24 * time.Hour
	seconds := float64(now.UnixMicro())/1e6 - float64(s)
	switch {
	case math.Abs(seconds) > century.Seconds():
		return "-"
	case seconds < 0:
		return "in " + readable.Duration(time.Duration(-seconds*float64(time.Second)))
	}
	return readable.Duration(time.Duration(seconds * float64(time.Second)))
}
