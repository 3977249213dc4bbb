package grafana

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	alertName = regexp.MustCompile(`^Millrace[A-Z][A-Za-z]+$`)
	duration  = regexp.MustCompile(`^[0-9]+[mh]$`)
	named     = regexp.MustCompile(`\$labels\.(\w+)`)
)

// TestAlerts: all rules are about existing metrics, and have a meaning and advice.
func TestAlerts(t *testing.T) {
	t.Parallel()
	all := exposed(t)
	file, err := readYAML(string(must(os.ReadFile("alerts.yaml"))(t)))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, group := range file.(map[string]any)["groups"].([]any) {
		for _, one := range group.(map[string]any)["rules"].([]any) {
			rule := one.(map[string]any)
			name, _ := rule["alert"].(string)
			if !alertName.MatchString(name) || seen[name] {
				t.Errorf("the name %q is not of its kind, or taken", name)
			}
			seen[name] = true
			query, _ := rule["expr"].(string)
			for _, wrong := range checkQuery(all, query) {
				t.Errorf("%s: %s", name, wrong)
			}
			if d, ok := rule["for"].(string); ok && !duration.MatchString(d) {
				t.Errorf("%s: for %q", name, d)
			}
			labels, _ := rule["labels"].(map[string]any)
			if severity, _ := labels["severity"].(string); len(labels) != 1 || !slices.Contains([]string{"critical", "warning", "info"}, severity) {
				t.Errorf("%s: the labels are %v", name, labels)
			}
			checkAnnotations(t, name, query, rule["annotations"].(map[string]any))
			for key := range rule {
				if !slices.Contains([]string{"alert", "expr", "for", "labels", "annotations"}, key) {
					t.Errorf("%s: nobody knows %s", name, key)
				}
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("there are %d rules only", len(seen))
	}
}

// checkAnnotations: texts are sentences, with labels that the alert has, and the runbook
// is the section of OPERATIONS that names the alert.
func checkAnnotations(t *testing.T, name, query string, texts map[string]any) {
	t.Helper()
	if len(texts) != 4 {
		t.Errorf("%s has %d annotations", name, len(texts))
	}
	url, _ := texts["runbook_url"].(string)
	if anchor, ok := strings.CutPrefix(url, "https://github.com/millrace/millrace/blob/main/docs/OPERATIONS.md#"); !ok || !strings.Contains(section(t, anchor), "`"+name+"`") {
		t.Errorf("%s: the section at %q does not name the alert", name, url)
	}
	for _, part := range []string{"summary", "description", "action"} {
		text, _ := texts[part].(string)
		if sentence := strings.HasSuffix(text, "."); text == "" || sentence != (part != "summary") {
			t.Errorf("%s: the %s is %q", name, part, text)
		}
		for _, l := range named.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(kept(query), l[1]) {
				t.Errorf("%s: the %s names the label %s, which the alert has not", name, part, l[1])
			}
		}
	}
}

// section returns the section of OPERATIONS with an anchor.
func section(t *testing.T, anchor string) string {
	for part := range strings.SplitSeq(string(must(os.ReadFile("../../docs/OPERATIONS.md"))(t)), "\n##") {
		heading, _, _ := strings.Cut(part, "\n")
		if strings.ReplaceAll(strings.ToLower(strings.Trim(heading, "# ")), " ", "-") == anchor {
			return part
		}
	}
	return ""
}
