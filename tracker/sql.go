package tracker

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
)

// Dialect selects the syntax of a database. For another database implement [Source]: it has
// two methods.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota
	SQLite
)

// SQLConfig selects the rows of a table that have work queued. Table, Key and ID are required.
// Names are quoted: spell them as the database stores them (PostgreSQL stores unquoted names in
// lower case).
type SQLConfig struct {
	// Table is the table, or "schema.table".
	Table string

	// Key is the column whose order a pass follows: unique, indexed, and never changed. Rows
	// without a key are not seen. New rows are seen sooner where the key grows, as a serial
	// number does.
	Key string

	// ID is the column with the identifier, indexed. Rows without one are not seen.
	ID string

	// Where is the SQL condition for a row with work queued, without placeholders: "status IN
	// ('queued', 'running')". It becomes part of the statements, so it must never come from a
	// user. A pass evaluates it on every row of the table, unless Indexed. Defaults to none:
	// each row is work queued.
	Where string

	// Indexed declares an index on Key with Where as its condition. A pass then reads only
	// the rows in the index. Without such an index one statement may read the whole table,
	// which takes too long for any slice. Defaults to false.
	Indexed bool

	// Dialect is the database's. Defaults to [PostgreSQL].
	Dialect Dialect

	// TextKey declares Key a text column. Defaults to false: whole numbers of up to 64 bits.
	TextKey bool

	// IntegerID declares ID a column of whole numbers of up to 64 bits. Defaults to false:
	// text.
	IntegerID bool
}

type sqlSource struct {
	db  *sql.DB
	cfg SQLConfig

	selectPage, selectIDs string // up to where they differ
	key, id               string // quoted
}

// SQL returns the source of a database table. It does not call the database. Each call of the
// source is one statement, which a cancelled context ends. Identifiers that the ID column
// cannot hold in their own spelling have no work. Errors: [millrace.ErrBadArgument].
func SQL(db *sql.DB, cfg SQLConfig) (Source, error) {
	if cfg.Dialect != PostgreSQL && cfg.Dialect != SQLite {
		return nil, millrace.ErrBadArgument.Errorf("there is no dialect %d", cfg.Dialect)
	}
	table, err := quote("Table", strings.Split(cfg.Table, ".")...)
	if err != nil {
		return nil, err
	}
	key, err := quote("Key", cfg.Key)
	if err != nil {
		return nil, err
	}
	id, err := quote("ID", cfg.ID)
	if err != nil {
		return nil, err
	}
	// SQLite takes an unknown column in double quotes for a text, unless it is qualified.
	key, id = "t."+key, "t."+id
	from := " FROM " + table + " AS t WHERE "
	live := id + " IS NOT NULL"
	if cfg.Where != "" {
		live += " AND (" + cfg.Where + ")"
	}
	page := "CASE WHEN " + live + " THEN 1 ELSE 0 END AS live" + from
	if cfg.Indexed {
		page = "1 AS live" + from + live + " AND "
	}
	return &sqlSource{
		db: db, cfg: cfg, key: key, id: id,
		selectPage: "SELECT " + key + " AS k, " + id + " AS id, " + page + key,
		selectIDs:  "SELECT DISTINCT " + id + from + live,
	}, nil
}

func quote(field string, parts ...string) (string, error) {
	quoted := make([]string, len(parts))
	for i, part := range parts {
		if part == "" || !utf8.ValidString(part) || strings.ContainsFunc(part, names.IsControl) {
			return "", millrace.ErrBadArgument.Errorf("%s is not a name: %q", field, strings.Join(parts, "."))
		}
		quoted[i] = `"` + strings.ReplaceAll(part, `"`, `""`) + `"`
	}
	return strings.Join(quoted, "."), nil
}

// Rows implements [Source]. The inner statement reads limit rows in the order of the key; the
// outer ones keep those with work, and the last one, which is the end of the page. A page with
// MaxIDs identifiers ends at the last of those.
func (s *sqlSource) Rows(ctx context.Context, after string, limit int) (Page, error) {
	text, args := s.selectPage, []any{}
	if after == "" {
		text += " IS NOT NULL"
	} else {
		key, err := s.keyOf(after)
		if err != nil {
			return Page{}, err
		}
		args = append(args, key)
		text += " > " + s.placeholder(1)
	}
	args = append(args, limit)
	text = "SELECT k, id, live, place, looked FROM (" +
		"SELECT k, id, live, row_number() OVER (ORDER BY k) AS place, count(*) OVER () AS looked FROM (" +
		text + " ORDER BY " + s.key + " LIMIT " + s.placeholder(len(args)) + ") AS page) AS counted " +
		"WHERE live = 1 OR place = looked ORDER BY place LIMIT " + strconv.Itoa(MaxIDs)

	rows, err := s.db.QueryContext(ctx, text, args...)
	if err != nil {
		return Page{}, err
	}
	defer rows.Close()
	page, looked := Page{}, 0
	for rows.Next() {
		var id sql.NullString
		var live bool
		if page.Next, err = s.scanRow(rows, &id, &live, &page.Looked, &looked); err != nil {
			return Page{}, err
		}
		if live {
			page.IDs = append(page.IDs, id.String)
		}
	}
	if page.Looked == looked && looked < limit { // the table has no more
		page.Next = ""
	}
	return page, rows.Err()
}

// textMark is the first byte of a cursor with a text key, which may be empty.
const textMark = "="

// scanRow reads a row that begins with the key, and returns its cursor.
func (s *sqlSource) scanRow(rows *sql.Rows, others ...any) (string, error) {
	if s.cfg.TextKey {
		var key string
		err := rows.Scan(append([]any{&key}, others...)...)
		return textMark + key, err
	}
	var key int64
	err := rows.Scan(append([]any{&key}, others...)...)
	return strconv.FormatInt(key, 10), err
}

// keyOf returns the key in a cursor.
func (s *sqlSource) keyOf(after string) (any, error) {
	text, isText := strings.CutPrefix(after, textMark)
	if s.cfg.TextKey && isText {
		return text, nil
	}
	key, err := strconv.ParseInt(after, 10, 64)
	if s.cfg.TextKey || err != nil {
		return nil, ErrSource.Errorf("the cursor %q is not of this table: delete the tracker when its table changes", after)
	}
	return key, nil
}

// Pending implements [Source].
func (s *sqlSource) Pending(ctx context.Context, ids []string) ([]string, error) {
	var args []any
	var list []string
	for _, id := range ids {
		if arg, ok := s.argument(id); ok {
			args = append(args, arg)
			list = append(list, s.idPlaceholder(len(args)))
		}
	}
	if len(args) == 0 {
		return nil, nil
	}
	rows, err := s.db.QueryContext(ctx, s.selectIDs+" AND "+s.id+" IN ("+strings.Join(list, ", ")+")", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var pending []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		pending = append(pending, id)
	}
	return pending, rows.Err()
}

// argument returns the value to compare with an identifier, and false if the column cannot
// hold it: some databases would fail.
func (s *sqlSource) argument(id string) (any, bool) {
	if s.cfg.IntegerID {
		n, err := strconv.ParseInt(id, 10, 64)
		return n, err == nil && strconv.FormatInt(n, 10) == id
	}
	return id, s.cfg.Dialect != PostgreSQL || utf8.ValidString(id) && !strings.Contains(id, "\x00")
}

func (s *sqlSource) placeholder(n int) string {
	if s.cfg.Dialect == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// idPlaceholder is placeholder for an identifier. Without the cast PostgreSQL refuses a number
// that is too large for the column.
func (s *sqlSource) idPlaceholder(n int) string {
	if s.cfg.Dialect == PostgreSQL && s.cfg.IntegerID {
		return "CAST(" + s.placeholder(n) + " AS bigint)"
	}
	return s.placeholder(n)
}
