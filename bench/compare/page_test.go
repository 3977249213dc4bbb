package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPageKeepsWhatIsAroundTheFigures(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "pictures"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "page.md")
	if err := os.WriteFile(path, []byte("before\n"+beginMark+"\nstale figures\n"+endMark+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newResults()
	r.Missing["bullmq"] = "there is no node on PATH"
	r.set("throughput", "millrace", figures{"write_per_s": 12345, "both_per_s": 999})
	r.set("memory", "millrace", figures{"mb_per_100k": 3.14159})
	for range 2 { // the second writes over the first
		if err := r.writePage(path); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if !strings.HasPrefix(text, "before\n") || !strings.HasSuffix(text, "\nafter\n") || strings.Contains(text, "stale figures") || strings.Count(text, beginMark) != 1 {
		t.Errorf("the page is now\n%s", text)
	}
	for _, want := range []string{"| 12,000 |", "| 3.1 MB |", "| not measured: there is no node on PATH |", "| has none |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q:\n%s", want, text)
		}
	}
	for _, chart := range []string{"compared-quiet.svg", "compared-speed.svg"} {
		file, err := os.Open(filepath.Join(folder, "pictures", chart))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for decoder := xml.NewDecoder(file); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", chart, err)
			}
		}
	}
	if err := os.WriteFile(path, []byte("no markers"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.writePage(path); err == nil {
		t.Error("a page without markers was written, want an error")
	}
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0: "0", 0.123: "0.12", 1.26: "1.3", 99: "99", 1234: "1,200", 1_266_000: "1,300,000"} {
		if got := thousands(value); got != want {
			t.Errorf("thousands(%v) = %s, want %s", value, got, want)
		}
	}
	for value, want := range map[float64]string{0.5: "0.50 ms", 12.4: "12 ms", 2540: "2.5 s"} {
		if got := short(value); got != want {
			t.Errorf("short(%v) = %s, want %s", value, got, want)
		}
	}
}

func TestAgainst(t *testing.T) {
	t.Parallel()
	before, after := newResults(), newResults()
	before.set("instructions", "millrace", figures{"sum_1": 400_000, "sum_8": 100_000, "gone": 1})
	after.set("instructions", "millrace", figures{"sum_1": 480_000, "sum_8": 99_000, "new": 1})
	got := after.against(before)
	for _, want := range []string{
		"### instructions\n",
		"| millrace, sum_1 | 400,000 | 480,000 | **+20.0 %** |\n",
		"| millrace, sum_8 | 100,000 | 99,000 | -1.0 % |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the comparison lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "gone") || strings.Contains(got, "new") {
		t.Errorf("the comparison has a figure of one side only:\n%s", got)
	}
}

func TestOnly(t *testing.T) {
	t.Parallel()
	systems, names := []string{"millrace", "asynq"}, []string{"flood", "slow"}
	o := options{only: []string{"asynq", "flood"}}
	for name, want := range map[string]bool{"asynq": true, "millrace": false} {
		if o.wants(name, systems) != want {
			t.Errorf("%s is wanted: %v, want %v", name, !want, want)
		}
	}
	if !o.wants("flood", names) || o.wants("slow", names) {
		t.Error("-only asynq,flood chose slow, or not flood")
	}
	if o.only = []string{"asynq"}; !o.wants("slow", names) {
		t.Error("-only with a system left out a measurement")
	}
	o.only = []string{"kafka"}
	if err := measureAll(t.Context(), o, newResults()); err == nil || !strings.Contains(err.Error(), "choose from millrace") {
		t.Errorf("-only kafka: %v, want an error that lists the names", err)
	}
}
