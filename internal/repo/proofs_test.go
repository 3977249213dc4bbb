package repo

import (
	"fmt"
	"go/doc"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	promisesPage = "docs/GUARANTEES.md"
	proofsSource = "internal/repo/testdata/proofs.txt"
	proofsPage   = "docs/PROOFS.md"
)

// TestProofs checks that each promise of docs/GUARANTEES.md has tests in proofs.txt, and that each of
// those tests exists. It compares docs/PROOFS.md, which shows both, or writes it with -update.
func TestProofs(t *testing.T) {
	t.Parallel()
	promises, proofs := readPromises(t), readProofs(t)
	var promised, proved []string
	for _, p := range promises {
		promised = append(promised, p.id)
	}
	for _, p := range proofs {
		proved = append(proved, p.id)
	}
	if diff := cmp.Diff(promised, proved); diff != "" {
		t.Fatalf("the same ids in the same order are wanted (-%s +%s):\n%s", promisesPage, proofsSource, diff)
	}
	rendered := renderProofs(t, promises, proofs)
	if *update {
		if err := os.WriteFile(proofsPage, []byte(rendered), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if page, err := os.ReadFile(proofsPage); err != nil || string(page) != rendered {
		t.Errorf("%s is not what promises and tests say, %v: go test -run TestProofs ./internal/repo -update", proofsPage, err)
	}
}

// promise is an item of docs/GUARANTEES.md that leads to docs/PROOFS.md.
type promise struct {
	id, text        string
	section, anchor string // the section, and the anchor of the nearest heading
	caveat          bool   // under "Not promised"
}

// readPromises returns the items with an id. Those that are no caveats must have one.
func readPromises(t *testing.T) (promises []promise) {
	t.Helper()
	text, err := os.ReadFile(promisesPage)
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(` \[(?:tests|details)\]\(PROOFS\.md#([a-z0-9-]+)\)$`)
	var at promise
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\n  ", " ")) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "#"); ok {
			heading = strings.TrimLeft(heading, "# ")
			if strings.HasPrefix(line, "## ") {
				at.section = heading
			}
			at.anchor, at.caveat = anchorOf(heading), strings.HasPrefix(heading, "Not promised")
		}
		if line == "Not promised:" {
			at.caveat = true
		}
		item, ok := strings.CutPrefix(line, "- ")
		if !ok {
			continue
		}
		if found := link.FindStringSubmatch(item); found != nil {
			at.id = found[1]
			at.text = strings.TrimSuffix(item, found[0])
			promises = append(promises, at)
		} else if !at.caveat {
			t.Errorf("%s: end this promise in a link, [tests](PROOFS.md#id), and list its tests in %s: %s", promisesPage, proofsSource, item)
		}
	}
	return promises
}

// proof is a promise in proofs.txt.
type proof struct {
	id, in  string // in is the package of tests without one
	details []string
	tests   [][2]string // a test and a note about it
}

func readProofs(t *testing.T) (proofs []proof) {
	t.Helper()
	text, err := os.ReadFile(proofsSource)
	if err != nil {
		t.Fatal(err)
	}
	in := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n ")
		indented, isIndented := strings.CutPrefix(line, "\t")
		detail, isDetail := strings.CutPrefix(indented, "detail: ")
		name, isPackage := strings.CutPrefix(line, "package ")
		switch last := len(proofs) - 1; {
		case line == "" || strings.HasPrefix(line, "#"):
		case isPackage:
			in = name
		case !isIndented:
			proofs = append(proofs, proof{id: line, in: in})
		case last < 0:
			t.Fatalf("%s: %q has no id above it", proofsSource, indented)
		case isDetail:
			proofs[last].details = append(proofs[last].details, detail)
		default:
			test, note, _ := strings.Cut(indented, " ")
			proofs[last].tests = append(proofs[last].tests, [2]string{test, note})
		}
	}
	return proofs
}

// renderProofs returns the page of promises with their proofs, which are in the same order.
func renderProofs(t *testing.T, promises []promise, proofs []proof) string {
	t.Helper()
	declared, section := declaredTests(t), ""
	var page strings.Builder
	fmt.Fprintf(&page, "<!-- Made from %s: go test -run TestProofs ./internal/repo -update -->\n\n# Proofs\n\n"+
		"The details of the promises of [GUARANTEES](GUARANTEES.md), and their tests: links to the files, and the first sentence of each comment.\n"+
		"A test without a package is in that of its section.\n", proofsSource)
	for i, p := range promises {
		if p.section != section {
			section = p.section
			fmt.Fprintf(&page, "\n## %s\n", section)
		}
		said := append([]string{p.text}, proofs[i].details...)
		if p.caveat {
			said[0] = "Not promised: " + p.text
		}
		fmt.Fprintf(&page, "\n### %s\n\n%s\n[In context](GUARANTEES.md#%s).\n", p.id, strings.Join(said, " "), p.anchor)
		if len(proofs[i].tests) == 0 && (!p.caveat || len(proofs[i].details) == 0) {
			t.Errorf("%s: %s has no tests", proofsSource, p.id)
		}
		page.WriteString("\n")
		for _, test := range proofs[i].tests {
			name := test[0]
			if !strings.Contains(name, ".") {
				name = proofs[i].in + "." + name
			}
			found, ok := declared[name]
			if !ok {
				t.Errorf("%s: %s: there is no %s", proofsSource, p.id, name)
			} else if found.does == "" {
				t.Errorf("%s: say in a comment what %s does, for %s", found.file, name, proofsPage)
			}
			fmt.Fprintf(&page, "- [%s](../%s)%s", test[0], found.file, found.does)
			if test[1] != "" {
				fmt.Fprintf(&page, " (%s)", test[1])
			}
			page.WriteString("\n")
		}
	}
	return page.String()
}

// declaredTest is a test, fuzz target or benchmark: its file, and what its comment says after its name.
type declaredTest struct{ file, does string }

// declaredTests returns those of the repository by folder and name, such as "internal/repo.TestProofs".
func declaredTests(t *testing.T) map[string]declaredTest {
	t.Helper()
	declared := map[string]declaredTest{}
	function := regexp.MustCompile(`(?m)^((?://.*\n)*)func ((?:Test|Fuzz|Benchmark)\w*)\(`)
	markdown := strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`)
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range function.FindAllStringSubmatch(string(source), -1) {
			comment := strings.ReplaceAll("\n"+match[1], "\n//", "\n")
			does, named := strings.CutPrefix(new(doc.Package).Synopsis(comment), match[2])
			if does != "" && !named {
				does = ": " + does
			}
			path := filepath.ToSlash(path)
			declared[filepath.ToSlash(filepath.Dir(path))+"."+match[2]] = declaredTest{path, markdown.Replace(does)}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return declared
}
