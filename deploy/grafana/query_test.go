package grafana

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// selectors finds metrics with their matchers, and the functions that are called on them.
	selectors = regexp.MustCompile(`(?:(\w+)\s*\(\s*)?\b(millrace_\w+)(?:\s*\{([^}]*)\})?(\[)?`)
	matchers  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"`)
	groupings = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
)

// checkQuery returns the problems of an expression in PromQL: metrics and labels that do not
// exist, functions of counters on other metrics, and counters without such a function. It
// checks no other syntax.
func checkQuery(all map[string]metric, query string) (wrong []string) {
	found := selectors.FindAllStringSubmatch(query, -1)
	if len(found) == 0 {
		wrong = append(wrong, "it has no metric: "+query)
	}
	var labels []string
	for _, s := range found {
		call, name, where := s[1], s[2], s[3]
		m, ok := all[name]
		if base, part, cut := histogram(all, name); cut {
			m, ok = base, true
			m.kind = "counter"
			if part == "bucket" {
				m.labels = append(slices.Clone(m.labels), "le")
			}
		} else if ok && m.kind == "histogram" {
			wrong = append(wrong, name+" is a histogram, which has no value of its own")
		}
		if !ok {
			wrong = append(wrong, "there is no metric "+name)
			continue
		}
		labels = append(labels, m.labels...)
		switch counts := m.kind == "counter"; {
		case (call == "rate" || call == "increase") && !counts:
			wrong = append(wrong, fmt.Sprintf("%s of %s, which is a %s", call, name, m.kind))
		case counts && call != "rate" && call != "increase":
			wrong = append(wrong, name+" is a counter, of which the rate is meant")
		}
		for _, match := range matchers.FindAllStringSubmatch(where, -1) {
			if !slices.Contains(m.labels, match[1]) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", name, match[1]))
			}
		}
	}
	for _, g := range groupings.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(labels, label) {
				wrong = append(wrong, fmt.Sprintf("none of the metrics has the label %s: %s", label, query))
			}
		}
	}
	return wrong
}

// histogram returns the histogram that a series belongs to.
func histogram(all map[string]metric, name string) (m metric, part string, ok bool) {
	for _, part := range []string{"bucket", "sum", "count"} {
		if base, cut := strings.CutSuffix(name, "_"+part); cut && all[base].kind == "histogram" {
			return all[base], part, true
		}
	}
	return metric{}, "", false
}

// kept returns the labels that an expression has in the end, as far as they are
// grouped by: those by which legends and texts may name things.
func kept(query string) []string {
	var labels []string
	for _, g := range groupings.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			labels = append(labels, strings.TrimSpace(label))
		}
	}
	return labels
}

func TestCheckQuery(t *testing.T) {
	t.Parallel()
	all := map[string]metric{
		"millrace_waiting":     {kind: "gauge", labels: []string{"queue", "state"}},
		"millrace_acked_total": {kind: "counter", labels: []string{"queue"}},
		"millrace_seconds":     {kind: "histogram", labels: []string{"script"}},
		"millrace_age":         {kind: "gauge"},
	}
	for query, want := range map[string]string{
		`max by (queue) (millrace_waiting{state="dead", queue=~"$queue"})`:                               "",
		`sum(rate(millrace_acked_total{queue="a"}[5m])) / increase(millrace_seconds_count[$x])`:          "",
		`histogram_quantile(0.5, sum by (le, script) (rate(millrace_seconds_bucket[5m])))`:               "",
		`max by (queue) (delta(millrace_waiting[5m])) and on (queue) rate(millrace_acked_total[5m]) > 0`: "",

		`millrace_unknown`:                             "there is no metric millrace_unknown",
		`up == 0`:                                      "it has no metric: up == 0",
		`millrace_waiting{tenant="a"}`:                 "millrace_waiting has no label tenant",
		`sum by (script) (millrace_waiting)`:           "none of the metrics has the label script: sum by (script) (millrace_waiting)",
		`rate(millrace_waiting[5m])`:                   "rate of millrace_waiting, which is a gauge",
		`millrace_acked_total`:                         "millrace_acked_total is a counter, of which the rate is meant",
		`millrace_seconds{script="a"}`:                 "millrace_seconds is a histogram, which has no value of its own",
		`rate(millrace_waiting_bucket[5m])`:            "there is no metric millrace_waiting_bucket",
		`sum by (le) (rate(millrace_seconds_sum[5m]))`: "none of the metrics has the label le: sum by (le) (rate(millrace_seconds_sum[5m]))",
	} {
		if got := strings.Join(checkQuery(all, query), "; "); got != want {
			t.Errorf("checkQuery(%s) = %q, want %q", query, got, want)
		}
	}
}
