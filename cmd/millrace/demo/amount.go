package demo

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/readable"
)

// seconds writes a duration as people read it here.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// briefly writes a duration of which the last digits do not count.
func briefly(d time.Duration) string {
	if d >= time.Second {
		return seconds(d)
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// milliseconds writes a duration far below a second.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

// grouped writes a number with a comma at each thousand.
func grouped[N int | int64](n N) string { return readable.Number(n) }
