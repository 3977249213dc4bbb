package commands

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// BlockTime returns how long a command may wait on the server, or that it may wait
// forever. Both are zero for a command that does not wait: one of another kind, XREAD
// without BLOCK, and one with an invalid timeout, which the server refuses.
//
// A time that does not fit a Duration is the longest that does. Inside MULTI and in
// scripts no command waits, even with a timeout.
func BlockTime(words []string) (d time.Duration, forever bool) {
	if len(words) < 3 {
		return 0, false
	}
	var buf [longestWord]byte
	switch string(upper(&buf, words[0])) {
	case "BLPOP", "BRPOP", "BRPOPLPUSH", "BLMOVE", "BZPOPMIN", "BZPOPMAX":
		return seconds(words[len(words)-1])
	case "BLMPOP", "BZMPOP":
		return seconds(words[1])
	case "BLMOVEM":
		return seconds(words[min(5, len(words)-1)])
	case "WAIT":
		return milliseconds(words[2])
	case "WAITAOF":
		return milliseconds(words[len(words)-1])
	case "XREAD", "XREADGROUP":
		return blockOption(words)
	}
	return 0, false
}

// blockOption returns the time behind the option BLOCK of XREAD and XREADGROUP.
// It stands in front of STREAMS; a group and its consumer may be called BLOCK too.
func blockOption(words []string) (d time.Duration, forever bool) {
	for i := 1; i+1 < len(words); i++ {
		switch option := words[i]; {
		case strings.EqualFold(option, "STREAMS"):
			return d, forever
		case strings.EqualFold(option, "BLOCK"):
			i++
			d, forever = milliseconds(words[i])
		case strings.EqualFold(option, "COUNT"):
			i++
		case strings.EqualFold(option, "GROUP"):
			i += 2
		}
	}
	return d, forever
}

// seconds reads a timeout in seconds, which may have a fraction. The server
// rounds up to milliseconds.
func seconds(word string) (d time.Duration, forever bool) {
	f, err := strconv.ParseFloat(word, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		return 0, false
	}
	return timeout(math.Ceil(f * 1000))
}

// milliseconds reads a timeout in whole milliseconds.
func milliseconds(word string) (d time.Duration, forever bool) {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return timeout(float64(n))
}

// timeout makes a time of a timeout in milliseconds, where 0 is none.
func timeout(ms float64) (d time.Duration, forever bool) {
	const most = float64(math.MaxInt64 / int64(time.Millisecond))
	if ms > most {
		return math.MaxInt64, false
	}
	return time.Duration(ms) * time.Millisecond, ms == 0
}
