package dashboard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/survey"
)

// memo caches results for one View, since all open pages need the same.
type memo struct {
	mu   sync.Mutex
	view *survey.View
	of   map[any]any
}

// remember returns the cached value of a key, or builds it.
func remember[T any](m *memo, v *survey.View, key any, build func() T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.view != v {
		m.view, m.of = v, map[any]any{}
	}
	if known, ok := m.of[key].(T); ok {
		return known
	}
	built := build()
	m.of[key] = built
	return built
}

// recent is the part of a structure's history that lists show.
type recent struct {
	now   map[string]float64 // the newest value of each column
	Spark spark
}

type recentKey struct {
	kind survey.Kind
	name string
}

// sparks are the columns whose sum the spark of a structure draws: work done.
var sparks = map[survey.Kind][]string{
	survey.Queue:   {"acked"},
	survey.Ick:     {"committed"},
	survey.Channel: {"committed"},
	survey.Steal:   {"worked", "idle", "aborted"},
}

// recent returns the recent history of a structure.
func (d *Dashboard) recent(v *survey.View, kind survey.Kind, name string) recent {
	return remember(&d.memo, v, recentKey{kind, name}, func() recent {
		series := d.cfg.Survey.Series(kind, name)
		r := recent{now: map[string]float64{}}
		if n := len(series.Times); n > 0 {
			for _, c := range series.Columns {
				r.now[c.Name] = c.Values[n-1]
			}
		}
		r.Spark = newSpark(sum([]survey.Series{series}, append([]string{""}, sparks[kind]...)).Lines[0].Values)
		return r
	})
}

// spark is a small line of the last minutes: paths in a box of sparkWidth by
// sparkHeight.
type spark struct {
	Line, Area string // empty if there is nothing to draw
	Most       float64
}

const (
	sparkWidth  = 100
	sparkHeight = 24
	sparkPoints = 60 // five minutes
)

// newSpark draws the newest values.
func newSpark(values []float64) spark {
	values = values[max(0, len(values)-sparkPoints):]
	if len(values) < 2 || slices.Max(values) == 0 {
		return spark{}
	}
	s := spark{Most: slices.Max(values)}
	var b strings.Builder
	for i, v := range values {
		command := 'L'
		if i == 0 {
			command = 'M'
		}
		x := sparkWidth - float64(len(values)-1-i)*sparkWidth/(sparkPoints-1)
		fmt.Fprintf(&b, "%c%s %s", command, coordinate(x), coordinate(sparkHeight-1-(sparkHeight-2)*v/s.Most))
	}
	s.Line = b.String()
	first := sparkWidth - float64(len(values)-1)*sparkWidth/(sparkPoints-1)
	s.Area = s.Line + "V" + strconv.Itoa(sparkHeight) + "H" + coordinate(first) + "Z"
	return s
}

// coordinate writes a coordinate to a tenth.
func coordinate(x float64) string {
	return strconv.FormatFloat(math.Round(x*10)/10+0, 'f', -1, 64) // + 0 makes 0 of -0
}
