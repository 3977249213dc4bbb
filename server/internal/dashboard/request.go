package dashboard

import "net/url"

// request is an action as a page offers it: a button, and a dialog that says what
// will happen before it does.
type request struct {
	ID      string // of the dialog
	Open    string // the words of the button that opens it
	Title   string // a question
	Text    string // the consequences
	Path    string // to which the form is sent
	Verb    string // the words of the button that does it
	Danger  bool   // it cannot be undone
	Confirm string // the name that is to be typed; empty for none
	Fields  []field
	Leaves  bool // its author is sent to another page
	Chosen  bool // it is about what was chosen in a list
}

// field is a number that a dialog asks for.
type field struct {
	Name     string
	Label    string
	Value    int
	Min, Max int
}

// valuesOf writes parameters as a form carries them: names and values by turns. Empty
// values are left out.
func valuesOf(pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	return values.Encode()
}
