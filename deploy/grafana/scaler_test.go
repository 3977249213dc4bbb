package grafana

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
)

// TestScalerQueries: the scaler of deploy/kubernetes asks Prometheus for metrics and labels that there are.
func TestScalerQueries(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../kubernetes/keda-prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	queries := regexp.MustCompile(`(?m)^ +query: >-\n((?: {10}.*\n)+)`).FindAllStringSubmatch(string(text), -1)
	if len(queries) != 2 {
		t.Errorf("there are %d queries, want 2", len(queries))
	}
	all := exposed(t)
	for _, query := range queries {
		for _, wrong := range checkQuery(all, strings.Join(strings.Fields(query[1]), " ")) {
			t.Error(wrong)
		}
	}
}

// TestScalerWaits: the scaler counts messages that wait for one of the reasons there are, and that a worker shortens.
func TestScalerWaits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../kubernetes/keda-prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`waits_for=~"([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
		for why := range strings.SplitSeq(match[1], "|") {
			if !slices.Contains(diagnosis.Whys, diagnosis.Why(why)) {
				t.Errorf("nothing waits for %s: %q are the reasons", why, diagnosis.Whys)
			}
		}
	}
}
