package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/millrace/millrace/ick"
)

// synced returns a folder whose index and database agree on four documents.
func synced(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := createIndex(folder); err != nil {
		t.Fatal(err)
	}
	docs := []document{
		{ID: "twin one", Text: []byte("the same text, alpha"), Word: "alpha"},
		{ID: "twin two", Text: []byte("the same text, beta"), Word: "beta"},
		{ID: "not UTF-8 \xff", Text: []byte("caf\xe9 \x80 gamma"), Word: "gamma"},
		{ID: "empty"},
	}
	tamper(t, folder, func(s *store, x *index) error {
		if err := s.put(t.Context(), docs...); err != nil {
			return err
		}
		marks := []ick.Entry{{Member: "never was"}}
		for _, d := range docs {
			marks = append(marks, ick.Entry{Member: d.ID})
		}
		return (&indexer{store: s, index: x, report: io.Discard}).handle(t.Context(), marks)
	})
	return folder
}

// tamper changes index and database of a folder behind the checker's back.
func tamper(t *testing.T, folder string, change func(*store, *index) error) {
	t.Helper()
	s, err := openStore(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	x, err := openIndex(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	if err := change(s, x); err != nil {
		t.Fatal(err)
	}
}

func TestCheckFindsWhatDiffers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		tamper func(*store, *index) error
		want   []string // what the differences say, in their order
	}{
		{
			"nothing",
			func(*store, *index) error { return nil },
			nil,
		},
		{
			"missing from the index",
			func(_ *store, x *index) error { return x.apply([]document{{ID: "empty"}}) },
			[]string{`"empty" is missing`},
		},
		{
			"not in the database",
			func(_ *store, x *index) error { return x.apply([]document{{ID: "ghost", Version: 9}}) },
			[]string{`"ghost" is in the index and not`},
		},
		{
			"deleted from the database",
			func(s *store, _ *index) error { return s.delete(t.Context(), "empty") },
			[]string{`"empty" is in the index and not`},
		},
		{
			"changed in the database",
			func(s *store, _ *index) error {
				s.changes.Store(100)
				return s.put(t.Context(), document{ID: "empty"})
			},
			[]string{`"empty" is at 4-e3b0c44298fc1c14 in the index and at 101-e3b0c44298fc1c14 in the database`},
		},
		{
			"same version, other text",
			func(_ *store, x *index) error {
				return x.apply([]document{{ID: "twin one", Version: 1, Text: []byte("the same text, delta")}})
			},
			[]string{`"twin one" is at 1-`, "a search for alpha finds []"},
		},
		{
			"a word in two documents",
			func(_ *store, x *index) error {
				return x.apply([]document{{ID: "ghost", Version: 9, Text: []byte("beta")}})
			},
			[]string{`"ghost" is in the index and not`, "a search for beta finds ["},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := synced(t)
			tamper(t, folder, test.tamper)

			found, err := check(t.Context(), folder)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(found.differences), len(test.want); got != want {
				t.Fatalf("differences = %q, want %q", found.differences, test.want)
			}
			for i, want := range test.want {
				if got := found.differences[i]; !strings.Contains(got, want) {
					t.Errorf("difference = %q, want %q", got, want)
				}
			}
			var out bytes.Buffer
			wantCode := exitOK
			if len(test.want) > 0 {
				wantCode = exitFailed
			}
			if got, want := report(&out, outcome{}, found), wantCode; got != want {
				t.Errorf("exit code = %d, want %d", got, want)
			}
			for _, want := range found.differences {
				if got := out.String(); !strings.Contains(got, want) {
					t.Errorf("report lacks %q:\n%s", want, got)
				}
			}
		})
	}
}

func TestOvertakenCountsWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	tamper(t, synced(t), func(s *store, x *index) error {
		before, err := s.get(t.Context(), "empty")
		if err != nil {
			return err
		}
		if err := s.delete(t.Context(), "empty"); err != nil {
			return err
		}
		got, err := (&indexer{store: s, index: x}).overtaken(t.Context(), []document{before, {ID: "never was"}})
		if want := 1; got != want {
			t.Errorf("overtaken = %d, want %d", got, want)
		}
		return err
	})
}
