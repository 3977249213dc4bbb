package dashboard

import (
	"errors"
	"strconv"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/scatter"
)

// counterPage looks a counter up on all servers.
type counterPage struct {
	heading

	Has      bool     // there are servers to ask
	Among    []string // their names
	Name     string
	Found    bool // there is a Sum
	Sum      string
	Servers  int
	Answered int
	Missing  []string
	Wrong    string
	Hint     string
}

func (d *Dashboard) counters(a *asked) (scene, error) {
	p := counterPage{heading: heading{Title: "Counters"}, Has: d.cfg.Counters != nil, Name: a.URL.Query().Get("name")}
	if p.Has {
		p.Among = d.cfg.Counters.Servers()
	}
	if p.Has && p.Name != "" {
		p.look(a, d.cfg.Counters)
	}
	return func(*survey.View) body { return p }, nil
}

// look reads a counter, which counts either whole numbers or fractions.
func (p *counterPage) look(a *asked, counters *scatter.Scatter) {
	gather := counters.Gather()
	whole, fraction := gather.Int(p.Name), gather.Float(p.Name)
	err := gather.Read(a.Context())
	p.Servers, p.Answered, p.Missing = whole.Servers, whole.Answered, whole.Missing
	switch {
	case p.Answered > 0 && (whole.Err == nil || errors.Is(whole.Err, millrace.ErrPartial)):
		p.Found, p.Sum = true, readable.Number(whole.Value)
		err = whole.Err
	case p.Answered > 0 && errors.Is(whole.Err, scatter.ErrType) && (fraction.Err == nil || errors.Is(fraction.Err, millrace.ErrPartial)):
		p.Found, p.Sum = true, strconv.FormatFloat(fraction.Value, 'f', -1, 64)
		err = fraction.Err
	case whole.Err != nil:
		err = whole.Err
	}
	if err != nil {
		p.Wrong, p.Hint = sentence(err.Error()), millrace.Hint(err)
	}
}
