package dashboard

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/readable"
)

//go:embed templates
var templateFiles embed.FS

// sheet is the templates of one page: the layout, the shared parts, and its own. A
// template "live.NAME" is a region of the page, which is sent again when it changes.
type sheet struct {
	whole   *template.Template
	regions []string // sorted
}

// common are the files of all pages.
var common = []string{"layout.html", "parts.html"}

func (d *Dashboard) readTemplates() (map[string]*sheet, error) {
	base := template.New("").Funcs(d.functions()).Option("missingkey=error")
	for _, file := range common {
		if err := readTemplate(base, file); err != nil {
			return nil, err
		}
	}
	files, err := fs.ReadDir(templateFiles, "templates")
	if err != nil {
		return nil, err
	}
	sheets := map[string]*sheet{}
	for _, file := range files {
		name := file.Name()
		if slices.Contains(common, name) {
			continue
		}
		whole, err := base.Clone()
		if err != nil {
			return nil, err
		}
		if err := readTemplate(whole, name); err != nil {
			return nil, err
		}
		s := &sheet{whole: whole}
		for _, t := range whole.Templates() {
			if region, ok := strings.CutPrefix(t.Name(), "live."); ok {
				s.regions = append(s.regions, region)
			}
		}
		slices.Sort(s.regions)
		sheets[strings.TrimSuffix(name, ".html")] = s
	}
	return sheets, nil
}

// silent is a line of a template that prints nothing.
var silent = regexp.MustCompile(`^(\{\{(if|else|end|range|with|define)\b[^}]*\}\})+$`)

// readTemplate reads a file without indents, and without line ends after lines that print
// nothing, which streams would send again and again.
func readTemplate(into *template.Template, file string) error {
	text, err := templateFiles.ReadFile(path.Join("templates", file))
	if err != nil {
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		b.WriteString(line)
		if !silent.MatchString(line) {
			b.WriteByte('\n')
		}
	}
	_, err = into.New(file).Parse(b.String())
	return err
}

// functions are the functions of templates. They only format; scenes choose the content.
func (d *Dashboard) functions() template.FuncMap {
	return template.FuncMap{
		"asset":    func(name string) string { return d.cfg.Prefix + d.assets.path(name) },
		"link":     d.link,
		"query":    query,
		"token":    token,
		"shown":    shown,
		"pieces":   pieces,
		"lines":    lines,
		"plain":    plain,
		"number":   readable.Number[int],
		"big":      readable.Number[int64],
		"rate":     rate,
		"percent":  percent,
		"ago":      ago,
		"since":    func(t time.Time) string { return since(time.Now(), t) },
		"exact":    exact,
		"clock":    func(t time.Time) string { return clock(time.Now(), t) },
		"counted":  readable.Count[int],
		"iso":      func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") },
		"bytes":    readable.Bytes,
		"left":     left,
		"title":    func(word string) string { return strings.ToUpper(word[:1]) + word[1:] },
		"stateIs":  severityOf[fleet.State],
		"memberIs": severityOf[fleet.MemberState],
		"columns":  columnHeads,
		"cell":     func(label string, value any) template.HTML { return cell(label, value, "") },
		"alarm":    func(label string, value any) template.HTML { return cell(label, value, "warning strong") },
		"figure":   func(id, name, about string, value any) template.HTML { return figure(id, name, about, value, "", "") },
		"aside": func(id, name, about string, value any) template.HTML {
			return figure(id, name, about, value, "aside", "warning")
		},
	}
}

// columnHeads returns the head row of a table. A name that begins with ">" is that of numbers.
func columnHeads(names ...string) template.HTML {
	var b strings.Builder
	b.WriteString("<thead><tr>")
	for _, name := range names {
		class := ""
		if number, ok := strings.CutPrefix(name, ">"); ok {
			name, class = number, ` class="num"`
		}
		fmt.Fprintf(&b, `<th scope="col"%s>%s</th>`, class, template.HTMLEscapeString(name))
	}
	b.WriteString("</tr></thead>")
	return template.HTML(b.String()) //nolint:gosec // everything is escaped
}

// amount writes a number: a count, a duration, or a float64, which is a rate. It returns
// whether the number is 0.
func amount(value any) (text string, zero bool) {
	switch n := value.(type) {
	case int:
		return readable.Number(n), n == 0
	case int64:
		return readable.Number(n), n == 0
	case time.Duration:
		return ago(n), n == 0
	case float64:
		return rate(n), false
	}
	return fmt.Sprint(value), false
}

// cell returns a table cell with a number. A number above 0 has the class positive.
func cell(label string, value any, positive string) template.HTML {
	text, zero := amount(value)
	if zero {
		positive = "zero"
	}
	return template.HTML(fmt.Sprintf(`<td class="num %s" data-label="%s">%s</td>`, //nolint:gosec // everything is escaped
		positive, template.HTMLEscapeString(label), template.HTMLEscapeString(text)))
}

// figure returns a large number with its name and a remark.
func figure(id, name, about string, value any, class, positive string) template.HTML {
	text, zero := amount(value)
	switch {
	case zero:
		positive = "zero"
	case id == "oldest":
		positive = ""
	}
	return template.HTML(fmt.Sprintf(`<div class="%s"><dd class="%s" data-figure="%s">%s</dd><dt>%s</dt><dd class="about">%s</dd></div>`, //nolint:gosec // everything is escaped
		class, positive, id, template.HTMLEscapeString(text), template.HTMLEscapeString(name), template.HTMLEscapeString(about)))
}

// query adds parameters to a path.
func query(path string, namesAndValues ...string) string {
	if encoded := pairs(namesAndValues...); encoded != "" {
		return path + "?" + encoded
	}
	return path
}

// pairs encodes parameters, given as names and values by turns. It leaves out empty
// values.
func pairs(namesAndValues ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		if namesAndValues[i+1] != "" {
			values.Set(namesAndValues[i], namesAndValues[i+1])
		}
	}
	return values.Encode()
}
