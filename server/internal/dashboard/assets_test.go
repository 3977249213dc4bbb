package dashboard

import (
	"net/http"
	"strings"
	"testing"
)

func TestAssetsAreKept(t *testing.T) {
	t.Parallel()
	h := on(t, newStage(viewOf(1)))
	for name := range h.pages.assets.byName {
		first := h.get(h.pages.assets.path(name)).want(http.StatusOK)
		tag := first.header.Get("ETag")
		if len(tag) < 10 || !strings.HasPrefix(tag, `"`) {
			t.Errorf("%s has the tag %q", name, tag)
		}
		if got := first.header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
			t.Errorf("%s is kept for %q", name, got)
		}
		h.do(http.MethodGet, "/assets/"+name, nil, http.Header{"If-None-Match": {tag}}).want(http.StatusNotModified)
		other := h.do(http.MethodGet, "/assets/"+name+"?v=old", nil, http.Header{"If-None-Match": {`"old"`}}).want(http.StatusOK)
		if got := other.header.Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%s without its hash is kept for %q", name, got)
		}
		if got := other.header.Get("Content-Type"); strings.HasSuffix(name, ".js") != strings.HasPrefix(got, "text/javascript") {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// Each third-party file has its licence here, and a line in NOTICE.
func TestAssetsOfOthersHaveLicences(t *testing.T) {
	t.Parallel()
	all, err := readAssets()
	if err != nil {
		t.Fatal(err)
	}
	notice := string(all.byName["NOTICE"].content)
	for _, name := range []string{"htmx.min.js", "sse.min.js", "uplot.min.js", "uplot.min.css"} {
		first, _, _ := strings.Cut(name, ".")
		if !strings.Contains(notice, name) || len(all.byName[first+".LICENSE"].content) == 0 {
			t.Errorf("%s has no licence, or no line in NOTICE", name)
		}
	}
}

// Our own files name no other place from which something would be fetched.
func TestAssetsFetchNothing(t *testing.T) {
	t.Parallel()
	all, err := readAssets()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"base.css", "parts.css", "forms.css", "live.js", "page.js", "charts.js"} {
		for _, bad := range []string{"http:", "https:", "@import", "url(", "eval(", "innerHTML"} {
			if strings.Contains(string(all.byName[name].content), bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
	}
}
