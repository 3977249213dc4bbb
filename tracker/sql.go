package tracker

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
)

// Values of [SQLConfig.Dialect].
const (
	PostgreSQL = "postgresql"
	SQLite     = "sqlite"
)

// SQLConfig selects the rows of a table that have work queued. Table and ID are required.
// Names are quoted: spell them as the database stores them (PostgreSQL stores unquoted names in
// lower case).
type SQLConfig struct {
	// Table is the table, or "schema.table".
	Table string

	// ID is the column with the identifier. A pass follows its order, so it has an index. It
	// holds whole numbers or texts. Rows without an identifier are not seen, nor those with more
	// than 4,095 bytes. A column that ignores case takes several spellings for one identifier:
	// producers keep theirs, and a pass adds that of a row with work. Ask in one of these.
	ID string

	// Where is the SQL condition for a row with work queued, without placeholders: "status IN
	// ('queued', 'running')". It becomes part of the statements, so it must never come from a
	// user. A pass evaluates it on every row of the table, or, of an identifier with many
	// rows, up to the first with work, unless Indexed. Defaults to none: each row is work
	// queued.
	Where string

	// Indexed declares an index on ID with Where as its condition. A pass then reads only
	// the rows in the index. Without such an index one statement may read the whole table,
	// which takes too long for any slice. Defaults to false.
	Indexed bool

	// Dialect is the database's: [PostgreSQL] or [SQLite]. Defaults to PostgreSQL. For another
	// database implement [Source]: it has two methods.
	Dialect string

	// IntegerID declares ID a column of whole numbers of up to 64 bits. Defaults to false:
	// text.
	IntegerID bool
}

type sqlSource struct {
	db  *sql.DB
	cfg SQLConfig

	selectPage, selectWork string // up to where they differ
	id, exact, from, short string // parts of them
}

// SQL returns the source of a database table. It does not call the database. Each call of the
// source is one statement, or two for a page, which a cancelled context ends. Identifiers that
// the ID column cannot hold in their own spelling, as 07 in one of numbers, have no work. Errors:
// [millrace.ErrBadArgument].
func SQL(db *sql.DB, cfg SQLConfig) (Source, error) {
	cfg.Dialect = cmp.Or(cfg.Dialect, PostgreSQL)
	if cfg.Dialect != PostgreSQL && cfg.Dialect != SQLite {
		return nil, millrace.ErrBadArgument.Errorf("there is no dialect %q", cfg.Dialect).
			WithHint("Use tracker.PostgreSQL or tracker.SQLite; for another database implement tracker.Source.")
	}
	table, err := quote("Table", strings.Split(cfg.Table, ".")...)
	if err != nil {
		return nil, err
	}
	id, err := quote("ID", cfg.ID)
	if err != nil {
		return nil, err
	}
	// SQLite takes an unknown column in double quotes for a text, unless it is qualified.
	id = "t." + id
	from := " FROM " + table + " AS t WHERE "
	live := id + " IS NOT NULL"
	if cfg.Where != "" {
		live += " AND (" + cfg.Where + ")"
	}
	page := "CASE WHEN " + live + " THEN 1 ELSE 0 END AS live" + from
	if cfg.Indexed {
		page = "1 AS live" + from + live + " AND "
	}
	// A text that no cursor holds is left out: a page must not end there.
	exact, short := id, ""
	if !cfg.IntegerID {
		exact = "CAST(" + id + " AS text)" // without the padding of a column of fixed width
		length := map[string]string{PostgreSQL: "octet_length(" + exact + ")", SQLite: "length(CAST(" + id + " AS blob))"}
		short = " AND " + length[cfg.Dialect] + " < " + strconv.Itoa(maxCursor)
	}
	return &sqlSource{
		db: db, cfg: cfg, id: id, exact: exact, from: from, short: short,
		selectPage: "SELECT " + id + " AS k, " + exact + " AS id, " + page + id,
		selectWork: from + live + " AND " + id + " = ",
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

// Rows implements [Source]. The inner statement reads limit rows in the order of the identifiers;
// the outer ones keep those with work, and the last one, which is the end of the page. The last
// identifier may have more rows, which the next page skips: a second statement asks about all of
// them.
func (s *sqlSource) Rows(ctx context.Context, after string, limit int) (Page, error) {
	text, args := s.selectPage, []any{}
	if after == "" {
		text += " IS NOT NULL"
	} else {
		last, err := s.idOf(after)
		if err != nil {
			return Page{}, err
		}
		args = append(args, last)
		text += " > " + s.idPlaceholder(1)
	}
	args = append(args, limit)
	text = "SELECT id, live, place, looked FROM (" +
		"SELECT id, live, row_number() OVER (ORDER BY k) AS place, count(*) OVER () AS looked FROM (" +
		text + s.short + " ORDER BY " + s.id + " LIMIT " + s.placeholder(len(args)) + ") AS page) AS counted " +
		"WHERE live = 1 OR place = looked ORDER BY place LIMIT " + strconv.Itoa(MaxIDs-1)

	rows, err := s.db.QueryContext(ctx, text, args...)
	if err != nil {
		return Page{}, err
	}
	defer rows.Close()
	page, looked, last := Page{}, 0, ""
	for rows.Next() {
		var live bool
		if err := rows.Scan(&last, &live, &page.Looked, &looked); err != nil {
			return Page{}, err
		}
		if live {
			page.IDs = append(page.IDs, last)
		}
	}
	if err := rows.Err(); err != nil || page.Looked == looked && looked < limit { // the table has no more
		return page, err
	}
	page.Next = s.cursor(last)
	arg, _ := s.argument(last)
	err = s.db.QueryRowContext(ctx, "SELECT "+s.exact+s.selectWork+s.idPlaceholder(1)+" LIMIT 1", arg).Scan(&last)
	if err == nil {
		page.IDs = append(page.IDs, last)
	} else if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return page, err
}

// textMark is the first byte of a cursor with a text, which may be empty.
const textMark = "="

// cursor returns the cursor behind an identifier.
func (s *sqlSource) cursor(id string) string {
	if s.cfg.IntegerID {
		return id
	}
	return textMark + id
}

// idOf returns the identifier in a cursor, as an argument of a statement.
func (s *sqlSource) idOf(after string) (any, error) {
	text, isText := strings.CutPrefix(after, textMark)
	if !s.cfg.IntegerID && isText {
		return text, nil
	}
	id, err := strconv.ParseInt(after, 10, 64)
	if !s.cfg.IntegerID || err != nil {
		return nil, ErrSource.Errorf("the cursor %q is not of this table: delete the tracker when its table changes", after)
	}
	return id, nil
}

// Pending implements [Source]. It answers by the places of the identifiers: the column may spell
// them in another way. The first value gives the others the type of the column.
func (s *sqlSource) Pending(ctx context.Context, ids []string) ([]string, error) {
	var args []any
	var values strings.Builder
	values.WriteString("(-1, (SELECT " + s.id + s.from + "1 = 0))")
	for i, id := range ids {
		if arg, ok := s.argument(id); ok {
			args = append(args, arg)
			values.WriteString(", (" + strconv.Itoa(i) + ", " + s.idPlaceholder(len(args)) + ")")
		}
	}
	if len(args) == 0 {
		return nil, nil
	}
	query := "SELECT asked.column1 FROM (VALUES " + values.String() + ") AS asked WHERE (SELECT 1" + s.selectWork + "asked.column2 LIMIT 1) IS NOT NULL" //nolint:gosec // values has placeholders only
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var pending []string
	for rows.Next() {
		var i int
		if err := rows.Scan(&i); err != nil {
			return nil, err
		}
		pending = append(pending, ids[i])
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
