package grafana

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard has the fields of a dashboard that this test checks.
type dashboard struct {
	UID           string `json:"uid"`
	Title         string
	SchemaVersion int `json:"schemaVersion"`
	Templating    struct {
		List []struct {
			Name, Type, Definition string
			Datasource             source
		}
	}
	Panels []panel
}

type panel struct {
	ID         int `json:"id"`
	Type       string
	Title      string
	Datasource source
	GridPos    struct{ X, Y, W, H int } `json:"gridPos"`
	Targets    []struct {
		Expr, LegendFormat string
		Datasource         source
	}
}

type source struct{ Type, UID string }

var (
	legends   = regexp.MustCompile(`\{\{(\w+)\}\}`)
	variables = regexp.MustCompile(`^label_values\((millrace_\w+), (\w+)\)$`)
)

// TestDashboard: all panels ask the chosen data source for existing metrics, and none
// lies on another.
func TestDashboard(t *testing.T) {
	t.Parallel()
	all := exposed(t)
	var d dashboard
	if err := json.Unmarshal(must(os.ReadFile("millrace.json"))(t), &d); err != nil {
		t.Fatal(err)
	}
	if d.UID != "millrace" || d.Title != "Millrace" || d.SchemaVersion < 39 {
		t.Errorf("the dashboard is %q, %q of schema %d", d.UID, d.Title, d.SchemaVersion)
	}
	chosen := source{"prometheus", "${datasource}"}
	for i, v := range d.Templating.List {
		if i == 0 {
			if v.Name != "datasource" || v.Type != "datasource" {
				t.Errorf("the first variable is %s, a %s, want the data source", v.Name, v.Type)
			}
			continue
		}
		found := variables.FindStringSubmatch(v.Definition)
		if found == nil || v.Datasource != chosen {
			t.Errorf("the variable %s asks %v for %q", v.Name, v.Datasource, v.Definition)
		} else if m, ok := all[found[1]]; !ok || !slices.Contains(m.labels, found[2]) {
			t.Errorf("the variable %s: %s has no label %s", v.Name, found[1], found[2])
		}
	}
	var rows []string
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s has an id that another panel has", p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[at]; ok {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		if p.Datasource != chosen || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: data source %v, %d targets, at %v", p.Title, p.Datasource, len(p.Targets), p.GridPos)
		}
		for _, target := range p.Targets {
			for _, wrong := range checkQuery(all, target.Expr) {
				t.Errorf("%s: %s", p.Title, wrong)
			}
			if target.Datasource != chosen {
				t.Errorf("%s: a target asks %v", p.Title, target.Datasource)
			}
			for _, l := range legends.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(kept(target.Expr), l[1]) {
					t.Errorf("%s: the legend names %s, which the expression does not keep: %s", p.Title, l[1], target.Expr)
				}
			}
		}
	}
	for i, want := range []string{"Overview", "Queues", "Icks", "Stealing", "Hashes and keys", "Calls", "Fleet"} {
		if i >= len(rows) || !strings.HasPrefix(rows[i], want) {
			t.Errorf("rows are %q; the one after %d should be about %s", rows, i, want)
		}
	}
}
