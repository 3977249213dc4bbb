package fleet

import "testing"

func TestWorse(t *testing.T) {
	t.Parallel()
	states := []State{Healthy, Partial, ReadOnly, Out}
	for i, a := range states {
		for j, b := range states {
			if got, want := worse(a, b), states[max(i, j)]; got != want {
				t.Errorf("worse(%s, %s) = %s, want %s", a, b, got, want)
			}
		}
	}
}
