package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/internal/redis/info"
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
	fields, err := s.info(ctx, "memory")
	return fields.Float("used_memory") - fields.Float("mem_clients_normal") - fields.Float("mem_aof_buffer"), err
}

// info returns what Redis reports about itself in a section.
func (s *site) info(ctx context.Context, section string) (info.Fields, error) {
	text, err := s.client.Do(ctx, s.client.B().Info().Section(section).Build()).ToString()
	return info.Parse(text), err
}
