package clients_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/schedule"
)

// fromBullMQ runs the program of docs/FROM_BULLMQ.md: its mails are sent once, one is dead, and others come again.
func fromBullMQ(s *shop, c client) {
	if c.language != "typescript" {
		s.t.Skip("the program is in TypeScript")
	}
	c.command(s.t, "driver") // compiles
	code, err := os.ReadFile(filepath.Join(c.folder, "mailer"+c.executable))
	if err != nil {
		s.t.Fatal(err)
	}
	var mu sync.Mutex
	sent, refused := map[string]int{}, map[string]int{}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var mail struct{ To string }
		if err != nil || json.Unmarshal(body, &mail) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		name, _, _ := strings.Cut(mail.To, "@")
		answer := map[string]int{"no": http.StatusNotFound, "busy": http.StatusTooManyRequests, "fails": http.StatusInternalServerError}[name]
		if answer != 0 && (name == "no" || refused[name] == 0) {
			refused[name]++
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(answer)
			return
		}
		sent[r.Header.Get("Idempotency-Key")]++
	}))
	defer service.Close()
	code = bytes.ReplaceAll(code, []byte("http://127.0.0.1:8420"), []byte("http://"+s.address))
	code = bytes.ReplaceAll(code, []byte("https://mail.example"), []byte(service.URL))
	if err := os.WriteFile(filepath.Join(c.folder, "mails"+c.executable), code, 0o600); err != nil {
		s.t.Fatal(err)
	}
	if s.queue, err = fairqueue.New(s.redis.Client(s.t), "mails", fairqueue.Config{}); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"no", "busy", "fails"} {
		if _, err := s.queue.Write(s.t.Context(), fairqueue.Draft{Tenant: name, Body: []byte(`{"to":"` + name + `@a.example","key":"` + name + `"}`)}); err != nil {
			s.t.Fatal(err)
		}
	}
	daily, err := schedule.Every(24 * time.Hour)
	if err != nil {
		s.t.Fatal(err)
	}
	digest := fairqueue.Draft{Tenant: "us", Headers: map[string]string{"type": "digest"}, Body: []byte("{}")}
	if err := s.queue.Schedules().Set(s.t.Context(), fairqueue.Schedule{Name: "digest", Spec: daily, Draft: digest}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.queue.Schedules().Run(s.t.Context(), "digest"); err != nil {
		s.t.Fatal(err)
	}
	s.workers = append(s.workers, start(s.t, c.command(s.t, "mails")))
	redistest.Eventually(s.t, "each mail is sent", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(sent) == 4 && refused["no"] == 1
	})
	s.settled()
	mu.Lock()
	defer mu.Unlock()
	digests := 0
	for key, n := range sent {
		if n != 1 {
			s.t.Errorf("%s was sent %d times, want once", key, n)
		}
		if strings.HasPrefix(key, "digest-20") {
			digests++
		}
	}
	if s.stats().Dead != 1 || sent["order-17"] != 1 || digests != 1 {
		s.t.Errorf("sent are %v, and %d are dead, want four, and one", sent, s.stats().Dead)
	}
}
