// Package recipes has the code of docs/RECIPES.md: one file for each answer that no other example has, and the test beside it.
// The page shows these lines as they are; a test of internal/repo compares them.
package recipes
