package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/redistest"
)

// post posts a webhook to a service and returns the status and the id.
func post(t *testing.T, s *service, tenant, key, body string) (status int, id string) {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, "/hooks/"+tenant, strings.NewReader(body))
	if key != "" {
		req.Header.Set(keyHeader, key)
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, req)
	var answer accepted
	if w.Code == http.StatusAccepted {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.ID == "" {
			t.Errorf("answer = %q, %v, want an id", w.Body.String(), err)
		}
	}
	return w.Code, answer.ID
}

func newService(t *testing.T, client rueidis.Client) *service {
	t.Helper()
	queue, err := fairqueue.New(client, redistest.Name(t), fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &service{queue: queue, endpoints: map[string]endpoint{"one": {}, "other": {}}}
}

func TestAKeyIsTheTenantsOwn(t *testing.T) {
	t.Parallel()
	s := newService(t, redistest.Shared(t).Client(t))
	posts := []struct{ tenant, key string }{{"one", "k"}, {"one", "k"}, {"one", "j"}, {"other", "k"}, {"one", ""}, {"one", ""}}
	ids := make([]string, len(posts))
	for i, p := range posts {
		var status int
		if status, ids[i] = post(t, s, p.tenant, p.key, "{}"); status != http.StatusAccepted {
			t.Errorf("post %v answers %d, want %d", p, status, http.StatusAccepted)
		}
	}
	for i := range ids {
		for j := range i {
			same := posts[i] == posts[j] && posts[i].key != ""
			if got := ids[i] == ids[j]; got != same {
				t.Errorf("%v and %v have the same id: %v, want %v", posts[i], posts[j], got, same)
			}
		}
	}
	if waiting, err := s.queue.Len(t.Context()); waiting != 5 || err != nil {
		t.Errorf("Len = %d, %v, want 5", waiting, err)
	}
}

func TestWhatIsNotAccepted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, tenant, key, body string
		want                    int
	}{
		{"unknown tenant", "nobody", "", "{}", http.StatusNotFound},
		{"too large", "one", "", strings.Repeat("x", maxBody+1), http.StatusRequestEntityTooLarge},
		{"key too long", "one", strings.Repeat("x", 600), "{}", http.StatusBadRequest},
	}
	s := newService(t, redistest.Shared(t).Client(t))
	for _, test := range tests {
		if got, _ := post(t, s, test.tenant, test.key, test.body); got != test.want {
			t.Errorf("%s: the service answers %d, want %d", test.name, got, test.want)
		}
	}
	if waiting, err := s.queue.Len(t.Context()); waiting != 0 || err != nil {
		t.Errorf("Len = %d, %v, want 0", waiting, err)
	}

	client := redistest.Shared(t).Client(t)
	s = newService(t, client)
	client.Close()
	if got, _ := post(t, s, "one", "", "{}"); got != http.StatusServiceUnavailable {
		t.Errorf("without Redis the service answers %d, want %d", got, http.StatusServiceUnavailable)
	}
}
