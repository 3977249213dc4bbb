package doctor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/observe/doctor"
)

// A program may examine its Redis before it starts. The server of this example does not
// report its settings, which is no failure.
func ExampleExamine() {
	mini := miniredis.NewMiniRedis()
	if err := mini.Start(); err != nil {
		log.Fatal(err)
	}
	defer mini.Close()
	client, err := dial.Redis(context.Background(), "redis://"+mini.Addr())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	report, err := doctor.Examine(context.Background(), client, doctor.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for _, findings := range report.Parts() {
		for _, f := range findings {
			if f.Severity == doctor.Critical || f.Check == "eviction" {
				fmt.Println(f.Check, f.Severity, f.Text)
			}
		}
	}
	fmt.Println(report.Verdict())
	// Output:
	// eviction note unknown
	// fit for work
}
