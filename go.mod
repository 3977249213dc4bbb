module github.com/millrace/millrace

go 1.26

require (
	github.com/alecthomas/kong v1.17.0
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/anishathalye/porcupine v1.3.1
	github.com/google/go-cmp v0.7.0
	github.com/redis/rueidis v1.0.79
	github.com/yuin/gopher-lua v1.1.2
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require golang.org/x/sys v0.47.0 // indirect
