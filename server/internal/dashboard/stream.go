package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/server/internal/access"
)

const (
	// maxStreams is how many pages may be live at the same time.
	maxStreams = 100

	// heartbeat is the longest pause of a stream. It keeps proxies from closing it, and
	// marks old numbers.
	heartbeat = 5 * time.Second

	// writeTimeout is how long a client may take to read an event.
	writeTimeout = 10 * time.Second
)

// stream serves the changes of an open page: after each new View, the regions that differ
// and the newest points of its charts.
func (d *Dashboard) stream(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case d.streams <- struct{}{}:
			defer func() { <-d.streams }()
		default:
			d.refuse(w, r, errCrowded)
			return
		}
		opening, opened := context.WithTimeout(r.Context(), pageTimeout)
		scene, err := p.open(&asked{Request: r.WithContext(opening), live: true})
		opened()
		if err != nil {
			d.refuse(w, r, err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // disables buffering by proxies
		if r.Method == http.MethodHead {
			return
		}
		s := &stream{client: access.Of(r.Context()), page: p, scene: scene, dashboard: d, to: http.NewResponseController(w), w: w, sent: map[string]string{}}
		s.to.SetReadDeadline(time.Time{}) //nolint:errcheck // there may be no connection
		s.run(r.Context())
	}
}

// stream is the stream of one page.
type stream struct {
	client    access.Client
	page      page
	scene     scene
	dashboard *Dashboard
	to        *http.ResponseController
	w         http.ResponseWriter
	sent      map[string]string // the last content of each region
	drawn     string            // and of the charts
	b         bytes.Buffer
}

// run sends until the client leaves, or the dashboard drains.
func (s *stream) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	views := make(chan *survey.View)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for v := range s.dashboard.cfg.Survey.Watch(ctx) {
			select {
			case views <- v:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		<-ended
		s.to.SetWriteDeadline(time.Time{}) //nolint:errcheck // there may be no connection
	}()

	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	last := s.dashboard.cfg.Survey.View()
	for {
		s.collect(last)
		if !s.flush() {
			return
		}
		select {
		case last = <-views:
		case <-tick.C:
			fmt.Fprint(&s.b, ":\n\n")
		case <-s.dashboard.drained:
			return
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// collect adds events for the regions and points that the client does not have yet.
func (s *stream) collect(v *survey.View) {
	f := s.dashboard.frame(s.client, s.page, v, s.scene)
	sheet := s.dashboard.templates[s.page.file]
	var b bytes.Buffer
	for _, region := range sheet.regions {
		b.Reset()
		if err := sheet.whole.ExecuteTemplate(&b, "live."+region, f); err != nil {
			s.dashboard.cfg.Logger.Error("a region of a page could not be made", "page", s.page.file, "region", region, "err", err)
			continue
		}
		text := b.String()
		if last, sent := s.sent[region]; !sent || last != text {
			s.sent[region] = text
			s.event(region, b.Bytes())
		}
	}
	points := map[string]point{}
	for _, c := range f.Body.head().Charts {
		if p, ok := c.newest(); ok {
			points[c.ID] = p
		}
	}
	if len(points) == 0 {
		return
	}
	if text, err := json.Marshal(points); err == nil && string(text) != s.drawn {
		s.drawn = string(text)
		s.event("points", text)
	}
}

// event adds an event. Its data may have several lines.
func (s *stream) event(name string, data []byte) {
	fmt.Fprintf(&s.b, "event: %s\n", name)
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		fmt.Fprintf(&s.b, "data: %s\n", line)
	}
	s.b.WriteByte('\n')
}

// flush sends the events, and reports whether the client is still connected.
func (s *stream) flush() bool {
	if s.b.Len() == 0 {
		return true
	}
	s.to.SetWriteDeadline(time.Now().Add(writeTimeout)) //nolint:errcheck // there may be no connection
	_, err := s.w.Write(s.b.Bytes())
	s.b.Reset()
	return err == nil && s.to.Flush() == nil
}
