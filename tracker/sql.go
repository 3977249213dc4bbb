package tracker

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
)

// Dialect is how a database wants its statements.
type Dialect int

// Dialects that are known. For another database implement [Source]: it is two
// methods.
const (
	PostgreSQL Dialect = iota
	SQLite
)

// SQLConfig says which rows of which table have work queued. Table, Key and ID
// must be given. Their names are quoted, so they must be spelled as the database
// stores them: what PostgreSQL was told without quotes, it stores in lower case.
type SQLConfig struct {
	// Table is the table, or "schema.table".
	Table string

	// Key is the column whose order a pass follows: unique, indexed, and never
	// changed in a row. Rows without one are not seen. New rows are seen sooner
	// where it grows, as a serial number does.
	Key string

	// ID is the column with the identifier, indexed. Rows without one are not seen.
	ID string

	// Where is the condition in SQL that a row with work queued meets, without
	// placeholders: "status IN ('queued', 'running')". It goes into the statements
	// as it is, so it must never come from a user. A pass tries it on every row of the
	// table, unless Indexed. Defaults to none: each row is work queued.
	Where string

	// Indexed says that an index gives the rows that meet Where in the order of Key: one
	// on Key with Where as its condition. A pass then reads these alone. Without such an
	// index one statement may read the whole table, for too long for any slice. Defaults
	// to false.
	Indexed bool

	// Dialect is the database's. Defaults to [PostgreSQL].
	Dialect Dialect

	// TextKey says that Key is a column of text. Defaults to false, whole numbers of
	// 64 bits at most.
	TextKey bool

	// IntegerID says that ID is a column of whole numbers of 64 bits at most.
	// Defaults to false, text.
	IntegerID bool
}

// sqlSource is a [Source] in a database.
type sqlSource struct {
	db  *sql.DB
	cfg SQLConfig

	selectPage, selectIDs string // up to where they differ
	key, id               string // quoted
}

// SQL returns the source that is a table of a database. It does not ask the
// database. Each call is one statement, which a cancelled context ends. An
// identifier must be one that the ID column can hold in its own spelling; others
// count as without work. Errors: [millrace.ErrBadArgument].
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
	// With the table's name before it, a misspelt column is an error also in
	// SQLite, which else takes what is in double quotes for a text.
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

// quote returns the name made of parts, each in double quotes.
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

// Rows is [Source]'s. The inner statement looks at rows in the order of the key, limit of
// them; the outer ones leave those with work, and the last one, which says how far the
// page goes. With the most identifiers that a page may have, it ends at one of those.
func (s *sqlSource) Rows(ctx context.Context, after Cursor, limit int) (Page, error) {
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
	if page.Looked == looked && looked < limit { // there was nothing more
		page.Next = ""
	}
	return page, rows.Err()
}

// textMark is the first byte of cursors whose key is text, which may be empty.
const textMark = "="

// scanRow reads a row that begins with its key, and returns the cursor.
func (s *sqlSource) scanRow(rows *sql.Rows, others ...any) (Cursor, error) {
	if s.cfg.TextKey {
		var key string
		err := rows.Scan(append([]any{&key}, others...)...)
		return Cursor(textMark + key), err
	}
	var key int64
	err := rows.Scan(append([]any{&key}, others...)...)
	return Cursor(strconv.FormatInt(key, 10)), err
}

// keyOf returns the key that a cursor holds.
func (s *sqlSource) keyOf(after Cursor) (any, error) {
	text, isText := strings.CutPrefix(string(after), textMark)
	if s.cfg.TextKey && isText {
		return text, nil
	}
	key, err := strconv.ParseInt(string(after), 10, 64)
	if s.cfg.TextKey || err != nil {
		return nil, ErrSource.Errorf("the cursor %q is not of this table: delete the tracker when its table changes", after)
	}
	return key, nil
}

// Pending is [Source]'s.
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
	pending := slices.Grow([]string(nil), len(args))
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		pending = append(pending, id)
	}
	return pending, rows.Err()
}

// argument returns what an identifier is compared with, and false for one that
// the column cannot hold, about which some databases would rather fail than
// answer.
func (s *sqlSource) argument(id string) (any, bool) {
	if s.cfg.IntegerID {
		n, err := strconv.ParseInt(id, 10, 64)
		return n, err == nil && strconv.FormatInt(n, 10) == id
	}
	return id, s.cfg.Dialect != PostgreSQL || utf8.ValidString(id) && !strings.Contains(id, "\x00")
}

// placeholder returns the nth one, from 1 on.
func (s *sqlSource) placeholder(n int) string {
	if s.cfg.Dialect == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// idPlaceholder is placeholder for an identifier. PostgreSQL is told the type of
// a number, since it would else refuse one that is too large for the column.
func (s *sqlSource) idPlaceholder(n int) string {
	if s.cfg.Dialect == PostgreSQL && s.cfg.IntegerID {
		return "CAST(" + s.placeholder(n) + " AS bigint)"
	}
	return s.placeholder(n)
}
