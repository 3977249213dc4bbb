package luacheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CheckTree returns what is wrong with the .lua files of a module, keys.go's
// part aside. Examples, benches, testdata and nested modules are left out.
//
// Which fragments a script is run with is known to its package only. Here a
// script may use what the fragments of its own folder and those in folders
// named internal give.
func CheckTree(root string) []Problem {
	type file struct{ name, source string }
	var files []file
	err := walk(root, ".lua", func(path, name string) error {
		source, err := os.ReadFile(path)
		files = append(files, file{name, string(source)})
		return err
	})
	if err != nil {
		return []Problem{{File: root, Line: 1, Message: err.Error()}}
	}

	const everywhere = "internal"
	gives := map[string][]string{} // by folder
	for _, f := range files {
		if fragmentForm.MatchString(f.source) {
			folder := filepath.Dir(f.name)
			if slices.Contains(strings.Split(filepath.ToSlash(folder), "/"), everywhere) {
				folder = everywhere
			}
			gives[folder] = append(gives[folder], topLocals(f.source)...)
		}
	}
	var problems []Problem
	for _, f := range files {
		if f.name == "internal/reqid/lane.lua" || checkedAsLibrary(filepath.Join(root, filepath.Dir(f.name))) || checkedAsLibrary(filepath.Join(root, filepath.Dir(filepath.Dir(f.name)))) {
			continue
		}
		var given []string
		if !fragmentForm.MatchString(f.source) {
			given = slices.Concat(gives[filepath.Dir(f.name)], gives[everywhere], []string{"K", "prefix"})
		}
		problems = append(problems, check(f.name, f.source, Options{}, given)...)
	}
	return problems
}

// checkedAsLibrary reports whether a test of the folder calls scripttest.Check.
func checkedAsLibrary(folder string) bool {
	tests, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
	return slices.ContainsFunc(tests, func(path string) bool {
		text, _ := os.ReadFile(path)
		return strings.Contains(string(text), "scripttest.Check(")
	})
}

// walk visits the files of a module with the given extension, in order of their
// names, with their paths and their names below root.
func walk(root, ext string, visit func(path, name string) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != root && passedOver(path) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ext {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return visit(path, filepath.ToSlash(name))
	})
}

// passedOver reports whether a folder is none of the module's own.
func passedOver(path string) bool {
	name := filepath.Base(path)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	if slices.Contains([]string{"bench", "examples", "testdata"}, name) {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}
