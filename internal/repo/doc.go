// Package repo holds the tests of the repository as a whole: its exported names, its imports, its
// words, its documents, and the scripts that install what tests need.
package repo
