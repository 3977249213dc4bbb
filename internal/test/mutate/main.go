// Command mutate finds checks of Lua scripts that no test needs.
//
//	go run ./internal/test/mutate ./lease ./internal/redis/shards=./expiry
//
// It takes each early return out of each script of a package, one at a time: the if in front of it
// asks for false instead. Then it runs the package's tests, or those of the package behind the equals
// sign, but not those that take protections out themselves. It reports each check without which they
// pass, and ends with 1 if there is one.
//
// The tests are compiled once, with an overlay for package script that changes a script as an
// environment variable says. Needs a minute or more for each package.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// early is an if, or a part of one, that returns at once: its indent and words, its condition, and
// the return.
var early = regexp.MustCompile(`(?m)^([ ]*(?:else)?if )((?:[^\n]|\n +(?:or|and) )+?)( then\n? *return\b[^\n]*)`)

// skipped are tests that change the same texts, and that fail because one is not there.
const skipped = "Protection|Sabotage|ScriptsKeepTheRules|NothingStaysForEver|RepliesAreBounded"

func main() {
	only := flag.String("run", "", "files and lines that match, such as open.lua:12")
	first := flag.String("first", "", "tests to run before the others, which are not run if these fail")
	limit := flag.Duration("limit", 3*time.Minute, "how long the tests of a package may take")
	flag.Parse()
	left := 0
	for _, folder := range flag.Args() {
		left += mutate(folder, regexp.MustCompile(*only), *first, *limit)
	}
	if left > 0 {
		fmt.Printf("%d checks are needed by no test\n", left)
		os.Exit(1)
	}
}

// mutate takes each check of the scripts of a folder out, and returns how many are not missed.
func mutate(folder string, only *regexp.Regexp, first string, limit time.Duration) (left int) {
	work := get(os.MkdirTemp("", "mutate"))
	defer os.RemoveAll(work)
	folder, tested, other := strings.Cut(folder, "=")
	if !other {
		tested = folder
	}
	tests := build(tested, work)
	files := get(filepath.Glob(filepath.Join(folder, "*.lua")))
	for _, file := range files {
		source := string(get(os.ReadFile(file)))
		for i, m := range early.FindAllStringSubmatchIndex(source, -1) {
			place := fmt.Sprintf("%s:%d", file, 1+strings.Count(source[:m[4]], "\n"))
			if !only.MatchString(place) {
				continue
			}
			began := time.Now()
			check := fmt.Sprintf("%s %d", filepath.Base(file), i)
			var failed []string
			if first != "" {
				failed = run(tests, tested, limit, check, "-test.run", first)
			}
			if len(failed) == 0 {
				failed = run(tests, tested, limit, check)
			}
			verdict := "needed by " + strings.Join(failed, ", ")
			if len(failed) == 0 {
				left++
				verdict = "NEEDED BY NO TEST"
			}
			fmt.Printf("%-30s if %-70s %s (%.0f s)\n", place, strings.Join(strings.Fields(source[m[4]:m[5]]), " "), verdict, time.Since(began).Seconds())
		}
	}
	return left
}

// assemble is the place in package script that the overlay changes.
const assemble = "\treturn assemble(prefix, sources)\n}\n\n// Edit"

// build compiles the tests of a folder with an overlay, and returns the program.
func build(folder, work string) string {
	module := strings.TrimSpace(string(get(exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output())))
	library := filepath.Join(module, "internal", "redis", "script", "library.go")
	source := string(get(os.ReadFile(library)))
	changed := strings.Replace(source, assemble, "\tmutate(sources)\n"+assemble, 1)
	if changed == source {
		panic("package script does not assemble libraries where this program expects it")
	}
	overlay := map[string]map[string]string{"Replace": {
		library: write(work, "library.go", changed),
		filepath.Join(filepath.Dir(library), "mutated.go"): write(work, "mutated.go", fmt.Sprintf(mutated, "`"+early.String()+"`")),
	}}
	program := filepath.Join(work, "tests")
	cmd := exec.Command("go", "test", "-c", "-overlay", write(work, "overlay.json", string(get(json.Marshal(overlay)))), "-o", program, folder)
	cmd.Stderr = os.Stderr
	must(cmd.Run())
	return program
}

// mutated is the code that the overlay adds.
const mutated = `package script

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

func mutate(sources map[string]string) {
	var applied, name string
	var index int
	if n, _ := fmt.Sscan(os.Getenv("MILLRACE_MUTATE"), &applied, &name, &index); n < 3 {
		return
	}
	early := regexp.MustCompile(%s)
	for file, source := range sources {
		if found := early.FindAllStringSubmatchIndex(source, -1); filepath.Base(file) == name && index < len(found) {
			m := found[index]
			sources[file] = source[:m[4]] + "false" + source[m[5]:]
			_ = os.WriteFile(applied, nil, 0o600)
		}
	}
}
`

// failure is a line of the output that names a test that failed.
var failure = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// run runs the tests without one check, and returns those that fail.
func run(tests, folder string, limit time.Duration, check string, more ...string) []string {
	cmd := exec.Command(tests, append(more, "-test.failfast", "-test.timeout", limit.String(), "-test.skip", skipped)...)
	cmd.Dir = folder
	applied := tests + ".applied"
	cmd.Env = append(os.Environ(), "MILLRACE_MUTATE="+applied+" "+check)
	output, err := cmd.CombinedOutput()
	must(os.Remove(applied)) // which is not there if the tests do not load the script
	if err == nil {
		return nil
	}
	var failed []string
	for _, m := range failure.FindAllSubmatch(output, -1) {
		failed = append(failed, string(m[1]))
	}
	if len(failed) == 0 {
		failed = append(failed, "a panic or the time limit")
	}
	slices.Sort(failed)
	return failed[:min(len(failed), 3)]
}

// write writes a file and returns its path.
func write(folder, name, text string) string {
	path := filepath.Join(folder, name)
	must(os.WriteFile(path, []byte(text), fs.FileMode(0o600))) //nolint:gosec // the names are those of the library's files
	return path
}

func get[T any](value T, err error) T {
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
