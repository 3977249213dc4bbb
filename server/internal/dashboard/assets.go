package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed assets
var assetFiles embed.FS

// assets are the scripts, styles and pictures of the pages.
type assets struct {
	byName map[string]asset
}

type asset struct {
	content []byte
	hash    string
	kind    string // its content type
}

// contentTypes are the content types by file extension. The system's table may lack some, and
// browsers run no script of another type.
var contentTypes = map[string]string{
	".js":  "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
}

func readAssets() (*assets, error) {
	a := &assets{byName: map[string]asset{}}
	files, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := assetFiles.ReadFile(path.Join("assets", file.Name()))
		if err != nil {
			return nil, err
		}
		kind, ok := contentTypes[path.Ext(file.Name())]
		if !ok {
			kind = "text/plain; charset=utf-8"
		}
		sum := sha256.Sum256(content)
		a.byName[file.Name()] = asset{content, hex.EncodeToString(sum[:8]), kind}
	}
	return a, nil
}

// path returns the path of an asset with its hash, so that browsers cache it for ever and
// still load the next release.
func (a *assets) path(name string) string {
	return "/assets/" + name + "?v=" + a.byName[name].hash
}

// asset serves an asset.
func (d *Dashboard) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	file, ok := d.assets.byName[name]
	if !ok {
		d.refuse(w, r, errNoPage)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.kind)
	h.Set("ETag", `"`+file.hash+`"`)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == file.hash {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(file.content))
}
