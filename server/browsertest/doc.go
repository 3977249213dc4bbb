// Package browsertest opens the pages of a service in a real browser, Chromium, and
// looks at what a person would see: that nothing is complained about in the console,
// that charts are drawn, that numbers change while one watches, that an action does
// what it says and is refused where pages are to look at.
//
// A picture of each page is left in build/screenshots, for people to look at.
//
// It is a module of its own, so that nobody who uses Millrace needs what drives a
// browser.
package browsertest
