package dashboard

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"
)

// flash is what came of an action, said on the page to which its author is sent.
type flash struct {
	Tone string `json:"t"` // good, warn or bad
	Text string `json:"s"`
	Hint string `json:"h,omitempty"`
}

const (
	// flashCookie is the name of the cookie in which it travels.
	flashCookie = "millrace_flash"

	// mostFlash is how many bytes of a text travel: a cookie has room for 4,096.
	mostFlash = 800

	// flashLife is for how long a browser keeps it until it is shown.
	flashLife = time.Minute
)

// giveFlash has the next page say something.
func giveFlash(w http.ResponseWriter, r *http.Request, path string, f flash) {
	f.Text, f.Hint = cut(f.Text, mostFlash), cut(f.Hint, mostFlash)
	text, err := json.Marshal(f)
	if err != nil {
		return // it has nothing but texts
	}
	http.SetCookie(w, flashSetting(r, path, base64.RawURLEncoding.EncodeToString(text), flashLife))
}

// takeFlash returns what is to be said, and forgets it.
func takeFlash(w http.ResponseWriter, r *http.Request, path string) *flash {
	c, err := r.Cookie(flashCookie)
	if err != nil {
		return nil
	}
	http.SetCookie(w, flashSetting(r, path, "", -time.Second))
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return nil
	}
	var f flash
	if json.Unmarshal(text, &f) != nil || f.Text == "" {
		return nil
	}
	switch f.Tone {
	case "good", "warn", "bad":
	default:
		f.Tone = ""
	}
	return &f
}

func flashSetting(r *http.Request, path, value string, life time.Duration) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // it is Secure where the page is, which may be plain HTTP on a loopback address
		Name: flashCookie, Value: value, Path: path, MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}

// cut shortens a text to so many bytes, between characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most] + "…"
}
