package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dial"
)

// size returns the bytes of the server's data: Redis's memory without buffers of clients, or
// the disk of River's table and its indexes.
func (s *site) size(ctx context.Context) (bytes float64, err error) {
	if s.pg != nil {
		conn, err := pgx.Connect(ctx, s.base.URL)
		if err != nil {
			return 0, err
		}
		var n int64
		err = conn.QueryRow(ctx, "SELECT pg_total_relation_size('river_job')").Scan(&n)
		return float64(n), errors.Join(err, conn.Close(ctx))
	}
	values, err := s.info(ctx, "memory")
	return values["used_memory"] - values["mem_clients_normal"] - values["mem_aof_buffer"], err
}

// info returns the numbers that Redis reports about itself in a section.
func (s *site) info(ctx context.Context, section string) (map[string]float64, error) {
	text, err := s.infoText(ctx, section)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		values[name], _ = strconv.ParseFloat(value, 64) // no caller uses a value that is no number
	}
	return values, nil
}

// infoText returns a section as Redis writes it.
func (s *site) infoText(ctx context.Context, section string) (string, error) {
	client, err := dial.Redis(ctx, s.base.URL)
	if err != nil {
		return "", err
	}
	defer client.Close()
	return client.Do(ctx, client.B().Info().Section(section).Build()).ToString()
}
