// Package kubernetes has manifests, and tests that decode them into the types of Kubernetes, KEDA and the Prometheus
// operator. It is a module of its own, since these take minutes to compile. The tests of the manifests beside the command,
// the service and its metrics are in the folder above, and in grafana.
package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// kinds are the types of all manifests, by apiVersion and kind.
var kinds = map[string]func() any{
	"apps/v1 Deployment":                      func() any { return new(apps.Deployment) },
	"apps/v1 StatefulSet":                     func() any { return new(apps.StatefulSet) },
	"v1 Service":                              func() any { return new(core.Service) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"keda.sh/v1alpha1 ScaledObject":           func() any { return new(keda.ScaledObject) },
	"keda.sh/v1alpha1 TriggerAuthentication":  func() any { return new(keda.TriggerAuthentication) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
}

// decode reads the documents of a text into their types. A field that its type does not have is an error.
func decode(text string) (objects []any, err error) {
	for i, document := range regexp.MustCompile(`(?m)^---\n`).Split(text, -1) {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		create := kinds[kind.APIVersion+" "+kind.Kind]
		if create == nil {
			return nil, fmt.Errorf("document %d: there is no %s %s", i+1, kind.APIVersion, kind.Kind)
		}
		object := create()
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// manifests returns the objects of all files of this folder, by file.
func manifests(t *testing.T) map[string][]any {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("manifests: %q, %v", files, err)
	}
	all := map[string][]any{}
	for _, file := range files {
		objects, err := decode(read(t, file))
		if err != nil {
			t.Errorf("%s, %v", file, err)
		}
		all[file] = objects
	}
	return all
}

// of returns the objects of one type.
func of[T any](all map[string][]any) (found []T) {
	for _, objects := range all {
		for _, object := range objects {
			if o, ok := object.(T); ok {
				found = append(found, o)
			}
		}
	}
	return found
}

// TestMisspelledFieldsFail renames each field of each manifest in turn, and demands that decoding fails. Keys of maps, such as
// labels, may have any name.
func TestMisspelledFieldsFail(t *testing.T) {
	t.Parallel()
	free := []string{"app", "cpu", "memory"}
	fields := regexp.MustCompile(`(?m)(?:^[ -]*|[{ ])([a-zA-Z]+):(?: |$)`)
	for file := range manifests(t) {
		text := regexp.MustCompile(`(?m)^#.*$|\s# .*$`).ReplaceAllString(read(t, file), "")
		tried := 0
		for _, at := range fields.FindAllStringSubmatchIndex(text, -1) {
			name := text[at[2]:at[3]]
			if slices.Contains(free, name) || inMetadata(text[:at[2]]) {
				continue
			}
			tried++
			if _, err := decode(text[:at[3]] + "x" + text[at[3]:]); err == nil {
				t.Errorf("%s decodes with %sx instead of %s", file, name, name)
			}
		}
		if tried < 10 {
			t.Errorf("%s: %d fields are tried", file, tried)
		}
	}
}

// inMetadata reports whether a text ends in the metadata of a trigger, a map that TestTriggers checks.
func inMetadata(before string) bool {
	at := strings.LastIndex(before, "\n      metadata:\n")
	if at < 0 {
		return false
	}
	for line := range strings.Lines(before[at+len("\n      metadata:\n"):]) {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "        ") {
			return false
		}
	}
	return true
}

// TestManifestsFitTogether: selectors select the pods, and each name is that of an object.
func TestManifestsFitTogether(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	pods := map[string]core.PodTemplateSpec{}
	for _, d := range of[*apps.Deployment](all) {
		pods[d.Name] = d.Spec.Template
		if !selects(d.Spec.Selector, d.Spec.Template.Labels) {
			t.Errorf("the Deployment %s does not select its pods", d.Name)
		}
		for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
			if !selects(c.LabelSelector, d.Spec.Template.Labels) {
				t.Errorf("a constraint of the Deployment %s does not select its pods", d.Name)
			}
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			for _, probe := range []*core.Probe{c.ReadinessProbe, c.LivenessProbe} {
				if probe != nil && !hasPort(c, probe.HTTPGet.Port.StrVal) {
					t.Errorf("a probe of the Deployment %s asks the port %s, which its container does not have", d.Name, probe.HTTPGet.Port.StrVal)
				}
			}
		}
	}
	for _, b := range of[*policy.PodDisruptionBudget](all) {
		if !selects(b.Spec.Selector, pods[b.Name].Labels) {
			t.Errorf("the PodDisruptionBudget %s does not select the pods of the Deployment of that name", b.Name)
		}
	}
	for _, s := range of[*core.Service](all) {
		if pod := pods[s.Name]; !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) || !hasPort(pod.Spec.Containers[0], s.Spec.Ports[0].TargetPort.StrVal) {
			t.Errorf("the Service %s has other labels or another port than its pods", s.Name)
		}
		for _, m := range of[*monitoring.ServiceMonitor](all) {
			if !selects(&m.Spec.Selector, s.Labels) || m.Spec.Endpoints[0].Port != s.Spec.Ports[0].Name {
				t.Errorf("the ServiceMonitor %s does not select the Service %s and its port", m.Name, s.Name)
			}
		}
	}
	authentications := map[string]bool{}
	for _, a := range of[*keda.TriggerAuthentication](all) {
		authentications[a.Name] = true
	}
	for _, o := range of[*keda.ScaledObject](all) {
		if _, ok := pods[o.Spec.ScaleTargetRef.Name]; !ok {
			t.Errorf("a ScaledObject scales %s, which is no Deployment", o.Spec.ScaleTargetRef.Name)
		}
		for _, trigger := range o.Spec.Triggers {
			if ref := trigger.AuthenticationRef; ref != nil && !authentications[ref.Name] {
				t.Errorf("a trigger names the TriggerAuthentication %s, which there is not", ref.Name)
			}
		}
	}
}

func selects(selector *meta.LabelSelector, of map[string]string) bool {
	s, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(of))
}

func hasPort(c core.Container, name string) bool {
	return slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.Name == name })
}

// TestTriggers has KEDA's own checks judge each ScaledObject, and compares the metadata of its triggers with the parameters
// of KEDA's scalers, which its release lists.
func TestTriggers(t *testing.T) {
	t.Parallel()
	scalers := scalers(t)
	objects := of[*keda.ScaledObject](manifests(t))
	if len(objects) != 2 {
		t.Errorf("%d ScaledObjects, want 2", len(objects))
	}
	for _, o := range objects {
		err := errors.Join(keda.CheckReplicaCountBoundsAreValid(o), keda.CheckFallbackValid(o), keda.ValidateTriggers(o.Spec.Triggers))
		if o.IsUsingModifiers() {
			_, wrong := keda.ValidateAndCompileScalingModifiers(o)
			err = errors.Join(err, wrong)
		}
		for _, trigger := range o.Spec.Triggers {
			err = errors.Join(err, scalers.check(trigger))
		}
		if err != nil {
			t.Errorf("a ScaledObject is wrong: %v", err)
		}
		for _, trigger := range o.Spec.Triggers {
			for name := range trigger.Metadata {
				wrong := trigger
				wrong.Metadata = map[string]string{name + "x": ""}
				if scalers.check(wrong) == nil {
					t.Errorf("a trigger may have the parameter %sx", name)
				}
			}
		}
	}
}

// scalerSchema has the parameters of KEDA's scalers, by scaler and name.
type scalerSchema map[string]map[string]parameter

type parameter struct {
	Name    string   `json:"name"`
	Of      bool     `json:"metadataVariableReadable"`
	Allowed []string `json:"allowedValue"`
	Set     bool     `json:"optional"`
	Default string   `json:"default"`
}

func scalers(t *testing.T) scalerSchema {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Scalers []struct {
			Type       string      `json:"type"`
			Parameters []parameter `json:"parameters"`
		} `json:"scalers"`
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(strings.TrimSpace(string(folder)), "schema", "generated", "scalers-schema.json"))), &file); err != nil {
		t.Fatal(err)
	}
	all := scalerSchema{}
	for _, s := range file.Scalers {
		all[s.Type] = map[string]parameter{}
		for _, p := range s.Parameters {
			all[s.Type][p.Name] = p
		}
	}
	return all
}

// check returns an error if a trigger has metadata that its scaler does not know, or lacks some that it needs.
func (s scalerSchema) check(trigger keda.ScaleTriggers) error {
	known := s[trigger.Type]
	if known == nil {
		return fmt.Errorf("KEDA has no scaler %s", trigger.Type)
	}
	for name, value := range trigger.Metadata {
		p, ok := known[name]
		if !ok || !p.Of {
			return fmt.Errorf("the scaler %s has no parameter %s", trigger.Type, name)
		}
		if len(p.Allowed) > 0 && !slices.Contains(p.Allowed, value) {
			return fmt.Errorf("%s of the scaler %s is %q, and may be %q", name, trigger.Type, value, p.Allowed)
		}
	}
	for name, p := range known {
		if _, given := trigger.Metadata[name]; !given && p.Of && !p.Set && p.Default == "" {
			return fmt.Errorf("the scaler %s needs %s", trigger.Type, name)
		}
	}
	return nil
}

// TestPages decodes the manifests of docs, whose documents are in blocks of YAML.
func TestPages(t *testing.T) {
	t.Parallel()
	found := 0
	for _, block := range regexp.MustCompile("(?s)\n```yaml\n(apiVersion:.*?)```").FindAllStringSubmatch(read(t, "../../docs/KUBERNETES.md"), -1) {
		objects, err := decode(block[1])
		if err != nil {
			t.Errorf("docs/KUBERNETES.md: %v\n%s", err, block[1])
		}
		found += len(objects)
	}
	if found < 4 {
		t.Errorf("docs/KUBERNETES.md has %d manifests, want 4", found)
	}
}

// TestAlerts runs the command of docs/RECIPES.md that loads the alerts, with a program in place of kubectl that prints its input.
func TestAlerts(t *testing.T) {
	t.Parallel()
	command := regexp.MustCompile("(?s)```sh\n([^`]*kind: PrometheusRule[^`]*)```").FindStringSubmatch(read(t, "../../docs/RECIPES.md"))
	if command == nil {
		t.Fatal("docs/RECIPES.md has no command that makes a PrometheusRule")
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte("#!/bin/sh\n[ \"$3\" != - ] || cat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "sh", "-c", command[1])
	run.Dir, run.Env = "../..", append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	objects, err := decode(string(out))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rule, ok := objects[0].(*monitoring.PrometheusRule)
	if !ok || len(rule.Spec.Groups) < 5 {
		t.Errorf("the command makes %T with too few groups:\n%s", objects[0], out)
	}
}
