// Package browsertest opens the pages of a service in a real browser, Chromium, and
// checks them as a reader sees them: the console has no errors, charts are drawn, numbers
// change live, and an action has its effect, or is refused on read-only pages.
//
// A picture of each page is left in build/screenshots, for people to look at.
//
// It is a module of its own, so that users of Millrace do not download the browser's
// driver.
package browsertest
