package millracetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// differentJSON says in words where two JSON texts differ, each place by its path.
func differentJSON(got, want []byte) []string {
	var values [2]any
	for i, text := range [][]byte{got, want} {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber() // large integers stay exact
		if err := d.Decode(&values[i]); err != nil || d.More() {
			return []string{fmt.Sprintf("body is %q, which is not JSON, want %s", got, want)}
		}
	}
	return differ("body", values[0], values[1])
}

func differ(path string, got, want any) (all []string) {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			keys := maps.Clone(want)
			maps.Copy(keys, got)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				g, has := got[key]
				w, wanted := want[key]
				at := path + "." + key
				switch {
				case !has:
					all = append(all, fmt.Sprintf("%s is missing, want %s", at, asJSON(w)))
				case !wanted:
					all = append(all, fmt.Sprintf("%s is %s, want none", at, asJSON(g)))
				default:
					all = append(all, differ(at, g, w)...)
				}
			}
			return all
		}
	case []any:
		if got, ok := got.([]any); ok && len(got) == len(want) {
			for i := range want {
				all = append(all, differ(fmt.Sprintf("%s[%d]", path, i), got[i], want[i])...)
			}
			return all
		}
	}
	if g, w := asJSON(got), asJSON(want); g != w {
		return []string{fmt.Sprintf("%s is %s, want %s", path, g, w)}
	}
	return nil
}

// asJSON returns a value as JSON, in which keys are sorted.
func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
