package dashboard

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"
)

// flash is the result of an action, for the page after it.
type flash struct {
	Failed bool   `json:"f,omitempty"`
	Text   string `json:"s"`
	Hint   string `json:"h,omitempty"`
}

const (
	flashCookie = "millrace_flash"

	// maxFlash is the longest text in bytes: a cookie may have 4,096.
	maxFlash = 800

	flashTTL = time.Minute
)

// setFlash stores a flash for the next page.
func setFlash(w http.ResponseWriter, r *http.Request, path string, f flash) {
	f.Text, f.Hint = cut(f.Text, maxFlash), cut(f.Hint, maxFlash)
	text, err := json.Marshal(f)
	if err != nil {
		return // cannot happen: it has only strings
	}
	http.SetCookie(w, flashSetting(r, path, base64.RawURLEncoding.EncodeToString(text), flashTTL))
}

// takeFlash returns the flash and removes it.
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
	return &f
}

func flashSetting(r *http.Request, path, value string, life time.Duration) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure over TLS; a loopback address may use plain HTTP
		Name: flashCookie, Value: value, Path: path, MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}

// cut shortens a text to a number of bytes, between characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most] + "…"
}
