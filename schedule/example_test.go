package schedule_test

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/schedule"
)

func Example() {
	quarter, err := schedule.Every(15 * time.Minute)
	if err != nil {
		panic(err)
	}
	morning, err := schedule.NewCalendar(schedule.Calendar{Hours: 1 << 8, Minutes: 1 << 30, Weekdays: 0b0111110, Zone: "Europe/Berlin"})
	if err != nil {
		panic(err)
	}
	saturday := time.Date(2026, 3, 28, 12, 20, 0, 0, time.UTC)
	for _, spec := range []schedule.Spec{quarter, morning} {
		fmt.Println(spec, "->", spec.Next(saturday).Format(time.RFC3339))
	}
	// Output:
	// every 15m0s -> 2026-03-28T12:30:00Z
	// at 30 8 * * 1-5 Europe/Berlin -> 2026-03-30T06:30:00Z
}
