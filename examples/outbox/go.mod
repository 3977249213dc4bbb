module github.com/millrace/millrace/examples/outbox

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.12.0
	github.com/millrace/millrace v0.0.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/millrace/millrace => ../..
