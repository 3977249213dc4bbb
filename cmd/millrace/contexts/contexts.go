// Package contexts keeps the servers that a person works on in a file, by name.
package contexts

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace/millrace"
)

var (
	// ErrConfig means that the file cannot be read or written.
	ErrConfig = &millrace.Error{Code: "bad_config", Message: "the file of contexts cannot be used"}

	// ErrContext means that there is no context of that name, or that it cannot have it.
	ErrContext = &millrace.Error{Code: "bad_context", Message: "there is no such context", Hint: "List them with: millrace context ls"}
)

// Context is a server or a fleet.
type Context struct {
	Redis        string `json:"redis"`                   // a URL, or several
	PasswordFile string `json:"password_file,omitempty"` // its first line is the password
}

// File is the content of the file.
type File struct {
	Use      string             `json:"use,omitempty"` // the context of commands that name no other
	Contexts map[string]Context `json:"contexts"`
}

// Path returns where the file is: below $XDG_CONFIG_HOME, or ~/.config.
func Path(env func(string) string) (string, error) {
	folder := env("XDG_CONFIG_HOME")
	if folder == "" && env("HOME") != "" {
		folder = filepath.Join(env("HOME"), ".config")
	}
	if folder == "" {
		return "", ErrConfig.Errorf("there is no folder for the file of contexts").WithHint("Set HOME or XDG_CONFIG_HOME.")
	}
	return filepath.Join(folder, "millrace", "config.json"), nil
}

// Load reads the file. One that does not exist has no contexts. One with a password that others
// may read is refused.
func Load(path string) (f File, err error) {
	f.Contexts = map[string]Context{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, ErrConfig.Errorf("%s", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil || d.More() {
		return f, ErrConfig.Errorf("%s is not the JSON of contexts: %v", path, err).WithHint("Mend the file, or remove it.")
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o077 != 0 && f.secret() {
		return f, ErrConfig.Errorf("others may read %s, which has a password", path).WithHint("chmod 600 " + path)
	}
	return f, nil
}

// secret reports whether the file has a password.
func (f File) secret() bool {
	for _, c := range f.Contexts {
		for part := range strings.SplitSeq(c.Redis, ",") {
			if u, err := url.Parse(part); err != nil || hasPassword(u) {
				return true
			}
		}
	}
	return false
}

func hasPassword(u *url.URL) bool {
	_, has := u.User.Password()
	return has
}

// Save writes the file, for its owner alone, in one step.
func (f File) Save(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	var draft *os.File
	if err == nil {
		draft, err = os.CreateTemp(filepath.Dir(path), ".config-*") // for its owner alone
	}
	if err != nil {
		return ErrConfig.Errorf("%s", err)
	}
	_, err = draft.Write(append(text, '\n'))
	err = errors.Join(err, draft.Sync(), draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		_ = os.Remove(draft.Name()) // it is gone if all went well
		return ErrConfig.Errorf("%s", err)
	}
	return nil
}

// Names returns the names of the contexts in alphabetical order.
func (f File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName returns an error if a context cannot have the name.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return ErrContext.Errorf("not the name of a context: %.80q", name).WithHint("A name has up to 64 letters, digits, dots, hyphens and underscores.")
	}
	return nil
}

// URL returns the URL of a context, with the password of its file.
func (f File) URL(name string) (string, error) {
	c, ok := f.Contexts[name]
	if !ok {
		return "", ErrContext.Errorf("there is no context %.80q", name)
	}
	if c.PasswordFile == "" {
		return c.Redis, nil
	}
	text, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return "", ErrConfig.Errorf("the password of the context %s: %s", name, err)
	}
	password, _, _ := strings.Cut(string(text), "\n")
	password = strings.TrimSuffix(password, "\r")
	parts := strings.Split(c.Redis, ",")
	for i, part := range parts {
		u, err := url.Parse(part)
		if err != nil || hasPassword(u) || u.Scheme == "" {
			continue // a further member of a list, or dial reports the fault
		}
		u.User = url.UserPassword(u.User.Username(), password)
		parts[i] = u.String()
	}
	return strings.Join(parts, ","), nil
}
