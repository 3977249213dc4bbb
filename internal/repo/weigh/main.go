// Command weigh says how much each dependency of the command millrace costs: the bytes that it would lose with
// it, and the seconds of CPU of a cold build.
//
//	go run ./internal/repo/weigh          bytes
//	go run ./internal/repo/weigh -time    and seconds: it compiles everything anew
//	go run ./internal/repo/weigh A+B C    of A and B together, and of C: beginnings of import paths
//
// A dependency costs its own packages and those that nothing else imports. Bytes are its share of the
// symbols of the program, times the size of the stripped program. Parts of the standard library that only
// it uses are not counted, nor are methods that it keeps the linker from dropping: for those, build without it.
package main

import (
	"debug/elf"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

const command = "./cmd/millrace"

// pkg is a package of the program.
type pkg struct {
	ImportPath string
	Imports    []string
	Standard   bool
	Module     struct {
		Path           string
		Indirect, Main bool
	}
}

func main() {
	log.SetFlags(0)
	cold := flag.Bool("time", false, "compile everything anew, and add up the seconds of CPU")
	flag.Parse()
	dir, err := os.MkdirTemp("", "weigh")
	check(err)
	defer os.RemoveAll(dir)
	program, graph := filepath.Join(dir, "millrace"), filepath.Join(dir, "graph")

	packages := list()
	run("build", "-trimpath", "-ldflags=-s -w", "-o", program, command)
	info, err := os.Stat(program)
	check(err)
	seconds := map[string]float64{}
	if *cold {
		run("build", "-trimpath", "-a", "-debug-actiongraph="+graph, "-o", program, command)
		var actions []struct {
			Package         string
			CmdUser, CmdSys float64
		}
		text, err := os.ReadFile(graph)
		check(err)
		check(json.Unmarshal(text, &actions))
		for _, a := range actions {
			seconds[a.Package] += (a.CmdUser + a.CmdSys) / 1e9
		}
	}
	run("build", "-trimpath", "-ldflags=-w", "-o", program, command)
	bytes := sizes(program)

	groups := flag.Args()
	if len(groups) == 0 {
		for _, p := range packages {
			if p.Module.Path != "" && !p.Module.Indirect && !p.Module.Main && !slices.Contains(groups, p.Module.Path) {
				groups = append(groups, p.Module.Path)
			}
		}
	}
	all := func(string) bool { return true }
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "bytes\tseconds\t  dependency\n%d\t%.1f\t  all, stripped\n", info.Size(), sum(seconds, all))
	for _, group := range groups {
		gone := without(packages, group)
		fmt.Fprintf(w, "%.0f\t%.1f\t  %s\n", float64(info.Size())*sum(bytes, gone)/sum(bytes, all), sum(seconds, gone), group)
	}
	check(w.Flush())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// run runs the go command, for Linux, of whose programs this one reads the symbols.
func run(args ...string) string {
	cmd := exec.Command("go", args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS="), os.Stderr
	out, err := cmd.Output()
	check(err)
	return string(out)
}

// list returns the packages of the program.
func list() (all []pkg) {
	for d := json.NewDecoder(strings.NewReader(run("list", "-deps", "-json=ImportPath,Imports,Standard,Module", command))); d.More(); {
		var p pkg
		check(d.Decode(&p))
		all = append(all, p)
	}
	return all
}

// without reports whether a package is gone without those of a group.
func without(all []pkg, group string) func(path string) bool {
	kept := map[string]bool{all[len(all)-1].ImportPath: true} // the program
	for _, p := range slices.Backward(all) {                  // each stands behind what it imports
		gone := slices.ContainsFunc(strings.Split(group, "+"), func(prefix string) bool { return strings.HasPrefix(p.ImportPath, prefix) })
		if kept[p.ImportPath] = (kept[p.ImportPath] || p.Standard) && !gone; kept[p.ImportPath] {
			for _, dep := range p.Imports {
				kept[dep] = true
			}
		}
	}
	return func(path string) bool {
		return !kept[path] && slices.ContainsFunc(all, func(p pkg) bool { return p.ImportPath == path })
	}
}

func sum(of map[string]float64, in func(string) bool) (n float64) {
	for key, part := range of {
		if in(key) {
			n += part
		}
	}
	return n
}

// owner is the package in the name of a symbol, before type arguments.
var owner = regexp.MustCompile(`^(?:type:\.\w+\.|go:itab\.|type:)?\*?((?:[^./\[]+(?:\.[^/\[]*)?/)*[^./\[(]+)\.`)

// sizes returns the bytes of the symbols of each package.
func sizes(program string) map[string]float64 {
	file, err := elf.Open(program)
	check(err)
	defer func() { _ = file.Close() }()
	symbols, err := file.Symbols()
	check(err)
	bytes := map[string]float64{}
	for _, s := range symbols {
		if int(s.Section) < len(file.Sections) && file.Sections[s.Section].Type != elf.SHT_NOBITS {
			path := "runtime"
			if m := owner.FindStringSubmatch(s.Name); m != nil {
				path = strings.ReplaceAll(m[1], "%2e", ".")
			}
			bytes[path] += float64(s.Size)
		}
	}
	return bytes
}
