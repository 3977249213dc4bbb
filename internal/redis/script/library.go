package script

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1.
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/redis/reqid"
)

// structFragment stands in for the Lua library struct, which real servers have.
//
//go:embed struct.lua
var structFragment string

func usesStruct(text string) bool {
	return strings.Contains(text, "struct.pack(") || strings.Contains(text, "struct.unpack(")
}

// Library holds the scripts of one package. It never changes and is safe for
// concurrent use.
type Library struct {
	prefix  string // how the structure's other keys begin, with K for the base key
	sources map[string]string
	scripts map[string]*Script
}

// Load returns the library of the .lua files that were embedded. It panics when a
// header is wrong, since the folder is a part of the program: the first test finds
// it.
//
// The prefix is how the structure's other keys begin, with K for the base key:
// "K:" for most. Packages that share scripts give the shared folders as well.
func Load(folder fs.FS, prefix string, shared ...fs.FS) *Library {
	sources := map[string]string{"clock.lua": reqid.ClockFragment, "lane.lua": reqid.LaneFragment, "tidy.lua": reqid.TidyFragment}
	for _, folder := range append(shared, folder) {
		check(fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if sources[path] != "" {
				return fmt.Errorf("two folders have a file %s", path)
			}
			source, err := fs.ReadFile(folder, path)
			sources[path] = string(source)
			return err
		}))
	}
	return assemble(prefix, sources)
}

// Edit returns a library with the sources that edit makes of this one's. Tests take
// protections out with it.
func (l *Library) Edit(edit func(file, source string) string) *Library {
	sources := maps.Clone(l.sources)
	for file, source := range sources {
		sources[file] = edit(file, source)
	}
	return assemble(l.prefix, sources)
}

// Scripts returns the scripts in the order of their names.
func (l *Library) Scripts() []*Script {
	return slices.SortedFunc(maps.Values(l.scripts), func(a, b *Script) int { return strings.Compare(a.name, b.name) })
}

// Script returns the script of that name, without the package's in front. It panics
// if there is none.
func (l *Library) Script(name string) *Script {
	s := l.scripts[name]
	if s == nil {
		panic(fmt.Sprintf("script: there is no script %q", name))
	}
	return s
}

// Script is one script of a library.
type Script struct {
	name      string // "lease.acquire"
	file      string
	fragments []string // the files in front of it, in order
	prelude   string   // its first line
	source    string   // as the server compiles it
	sha       string
	imitation *Script    // the same for a server without the Lua library struct; nil if the script does not use it
	keys      []template // those that it may touch beside the base key
	beside    []template // those that it tries to touch, and that are not declared
	makes     []placeholder
	without   *template // the key without which there is nothing to do; nil for none
	lane      bool      // it runs once, however often it is sent
	reads     bool      // it writes nothing
	replica   bool      // a replica may answer
}

// Name returns the script's name with that of its package: "lease.acquire".
func (s *Script) Name() string { return s.name }

// File returns the name of the script's file, and those of the fragments in front of
// it.
func (s *Script) File() (file string, fragments []string) { return s.file, s.fragments }

// Lane reports whether a call of the script takes effect once, however often it is sent.
func (s *Script) Lane() bool { return s.lane }

// Reads reports whether the script writes nothing.
func (s *Script) Reads() bool { return s.reads }

// Source returns the text that the server compiles, fragments included.
func (s *Script) Source() string { return s.source }

// SHA returns the name by which the server knows the script.
func (s *Script) SHA() string { return s.sha }

// Prelude returns the first line of the script, which is in no file.
func (s *Script) Prelude() string { return s.prelude }

// makePrelude returns the first line of a script. Where the library struct is missing, it
// ends the script before the first write.
func (l *Library) makePrelude(text string) string {
	quoted := strings.ReplaceAll("'"+l.prefix+"'", "K", "' .. K .. '")
	quoted = strings.TrimSuffix(strings.TrimPrefix(quoted, "'' .. "), " .. ''")
	prelude := "local K, on_cluster = KEYS[1], KEYS[2] ~= nil local prefix = " + quoted
	if usesStruct(text) {
		prelude += " local struct = struct"
	}
	return prelude + "\n"
}

// Text returns the text of a file of the library.
func (l *Library) Text(file string) string { return l.sources[file] }

// assemble puts the fragments in front of the scripts that need them.
func assemble(prefix string, sources map[string]string) *Library {
	l := &Library{prefix: prefix, sources: sources, scripts: map[string]*Script{}}
	heads := map[string]header{}
	files := map[string]string{} // of the fragments, by their names
	for file, source := range sources {
		h := readHeader(file, source)
		heads[file] = h
		if h.fragment != "" {
			files[h.fragment] = file
		}
	}
	for file, h := range heads {
		if h.fragment != "" {
			continue
		}
		s := &Script{name: h.script, file: file, reads: h.reads, replica: h.replica}
		var text strings.Builder
		var add func(file string)
		add = func(file string) {
			for _, name := range heads[file].needs {
				needed, ok := files[name]
				if !ok {
					panic(fmt.Sprintf("script: %s needs the fragment %s, which is not there", file, name))
				}
				if !slices.Contains(s.fragments, needed) {
					add(needed)
				}
			}
			s.lane = s.lane || heads[file].fragment == "lane" || heads[file].fragment == "ticket"
			s.declare(heads[file])
			text.WriteString(sources[file])
			if heads[file].fragment != "" {
				s.fragments = append(s.fragments, file)
			}
		}
		add(file)
		s.prelude = l.makePrelude(text.String())
		s.source = s.prelude + text.String()
		s.sha = shaOf(s.source)
		if usesStruct(s.source) {
			copied := *s
			copied.source = structFragment + s.source
			copied.sha = shaOf(copied.source)
			s.imitation = &copied
		}
		_, short, _ := strings.Cut(h.script, ".")
		l.scripts[short] = s
	}
	return l
}

func shaOf(source string) string {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// declare adds the keys that a header names.
func (s *Script) declare(h header) {
	for _, t := range h.touches {
		if t.text != "K" && !slices.Contains(s.keys, t) {
			s.keys = append(s.keys, t)
		}
	}
	s.beside = append(s.beside, h.beside...)
	s.makes = append(s.makes, h.makes...)
	if h.without != nil {
		s.without = h.without
	}
}

// header has the lines that the library uses of the comment at the top of a file.
type header struct {
	script, fragment string // the name of either
	needs            []string
	touches          []template
	beside           []template
	makes            []placeholder
	without          *template
	reads            bool
	replica          bool
}

var (
	scriptForm   = regexp.MustCompile(`^-- ([a-z][a-z0-9]*\.[a-z][a-z0-9_]*)\b`)
	fragmentForm = regexp.MustCompile(`^-- fragment ([a-z][a-z0-9_]*)\b`)
	labelForm    = regexp.MustCompile(`^-- ([A-Za-z]+)(?:\[[^\]]*\])?  +(\S.*)$`)
	moreForm     = regexp.MustCompile(`^--    +(\S.*)$`)
)

// readHeader reads the lines of a header that the library goes by.
func readHeader(file, source string) header {
	h := header{}
	if m := fragmentForm.FindStringSubmatch(source); m != nil {
		h.fragment = m[1]
	} else if m := scriptForm.FindStringSubmatch(source); m != nil {
		h.script = m[1]
	} else {
		panic(fmt.Sprintf("script: %s does not begin with the name of a script or a fragment", file))
	}
	entries := map[string]string{}
	label := ""
	for line := range strings.Lines(source) {
		line = strings.TrimRight(line, " \r\n")
		if !strings.HasPrefix(line, "--") {
			break
		}
		if m := labelForm.FindStringSubmatch(line); m != nil {
			label = m[1]
			entries[label] += " " + m[2]
		} else if m := moreForm.FindStringSubmatch(line); m != nil {
			entries[label] += " " + m[1]
		} else {
			label = ""
		}
	}
	list := func(label string) []string {
		var items []string
		for item := range strings.SplitSeq(entries[label], ",") {
			if item = strings.TrimSpace(item); item != "" && item != "nothing" {
				items = append(items, item)
			}
		}
		return items
	}
	h.needs = list("Needs")
	for _, item := range list("Touches") {
		h.touches = append(h.touches, readTemplate(file, item))
	}
	for _, item := range list("Beside") {
		h.beside = append(h.beside, readTemplate(file, item))
	}
	for _, item := range list("Without") {
		t := readTemplate(file, item)
		h.without = &t
	}
	for _, item := range list("Makes") {
		h.makes = append(h.makes, readPlaceholder(file, item))
	}
	h.reads = strings.HasPrefix(entries["Repeat"], " harmless: it only reads")
	for _, item := range list("Replica") {
		if h.replica = item == "may answer"; !h.replica {
			panic(fmt.Sprintf("script: %s says of replicas %q, not that one may answer", file, item))
		}
	}
	return h
}

// check panics: an embedded folder can be read.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
