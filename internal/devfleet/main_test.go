package devfleet

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// starterEnv makes the test binary a program that starts a fleet in the folder of
// that name, says so, and waits for its end.
const starterEnv = "DEVFLEET_STARTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(starterEnv); dir != "" {
		beStarter(dir)
	}
	redistest.Main(m)
}

func beStarter(dir string) {
	_, err := Start(context.Background(), Config{
		Binary: os.Getenv(binaryEnv), Dir: dir, Nodes: 2, Partitions: 1,
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}
