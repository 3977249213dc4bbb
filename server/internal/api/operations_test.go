package api_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/server/internal/api"
	"github.com/millrace/millrace/tracker"
)

// TestOperations goes through all that the API can do. Each request and each
// answer is held against the description, and each operation there is exercised.
func TestOperations(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	t.Run("all", func(t *testing.T) {
		for name, test := range map[string]func(service, string){
			"messages": messages, "settling": settling, "rounds": rounds, "batches": batches, "dead": dead, "failing": failing, "schedules": schedules, "counted": counted, "queues": queues, "tenants": tenants, "browsing": browsing, "showing": showing,
			"icks": icks, "parked": parked, "channels": channels, "leases": leases, "hashes": hashes, "pinned": pinnedValues, "trackers": trackers, "counters": counters, "audit": audits,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(s.in(t), redistest.Name(t))
			})
		}
	})
	for _, op := range s.spec.operations() {
		if !s.spec.seen[op] {
			t.Errorf("no test asked for %s", op)
		}
	}
}

// take receives messages that must be there, from a queue's path.
func (s service) take(queue string, body any) []ops.Message {
	s.t.Helper()
	got := read[ops.Messages](s.ask("POST", queue+"/receive", body).want(200, ""))
	if len(got.Messages) == 0 {
		s.t.Fatalf("%s brings nothing", queue)
	}
	return got.Messages
}

// counted are batches: messages that are counted together.
func counted(s service, name string) {
	q := "/v1/queues/" + name
	s.ask("GET", q+"/batches", nil).want(200, `{"batches":[]}`)
	s.ask("POST", q+"/batches", object{"total": 2}).refused(400, "bad_request")
	s.ask("POST", q+"/batches", object{"total": 2, "tenant": "acme", "body": "x", "json": 1}).refused(400, "bad_request")
	id := read[ops.CreatedBatch](s.ask("POST", q+"/batches", object{"total": 2, "tenant": "end", "json": object{"import": 17}}).want(201, "")).ID
	one := q + "/batches/" + id
	for range 2 {
		s.ask("POST", q+"/messages", object{"tenant": "acme", "batch": id}).want(201, "")
	}
	s.ask("POST", q+"/messages", object{"tenant": "acme", "batch": id}).refused(409, "batch_over")
	if all := read[ops.Batches](s.ask("GET", q+"/batches", nil).want(200, "")); len(all.Batches) != 1 || all.Batches[0].Left != 2 {
		s.t.Errorf("batches are %+v, want one with two messages left", all)
	}
	for range 2 {
		m := s.take(q, object{"block": "20s"})[0]
		if m.Batch != id {
			s.t.Errorf("message %+v, want one of batch %s", m, id)
		}
		s.ask("POST", q+"/ack", object{"receipts": []string{m.Receipt}}).want(200, `{"acked":1,"stale":0}`)
	}
	if b := read[ops.Batch](s.ask("GET", one, nil).want(200, "")); b.State != fairqueue.BatchDone || b.Handled != 2 || b.Left != 0 {
		s.t.Errorf("batch %+v, want one that is done", b)
	}
	end := s.take(q, object{"block": "20s"})[0]
	if end.Body != `{"import":17}` || end.Headers[fairqueue.HeaderBatch] != jsontype.Text(id) || end.Headers[fairqueue.HeaderBatchHandled] != "2" {
		s.t.Errorf("the end is %+v", end)
	}
	open := read[ops.CreatedBatch](s.ask("POST", q+"/batches", object{"tenant": "end"}).want(201, "")).ID
	s.ask("POST", q+"/batches/"+open+"/close", nil).want(200, "")
	if b := read[ops.Batch](s.ask("POST", q+"/batches/"+open+"/cancel", object{}).want(200, "")); b.State != fairqueue.BatchDone {
		s.t.Errorf("batch %+v, want one that was done when it was closed", b)
	}
	s.ask("GET", q+"/batches/1", nil).refused(400, "bad_argument")
	s.ask("POST", q+"/batches/1795226400100321/cancel", nil).refused(404, "not_found")
}

func messages(s service, name string) {
	q := "/v1/queues/" + name
	s.ask("POST", q+"/receive", nil).want(200, `{"messages":[]}`)
	s.ask("GET", q+"/stats", nil).refused(404, "not_found") // a read creates nothing
	id := read[ops.Written](s.ask("POST", q+"/messages", object{
		"tenant": "acme", "body": "hello", "headers": object{"kind": "greeting"}, "deadline": "1h", "streams": 8, "per_tenant": 2,
	}).want(201, "")).ID

	first := s.take(q, object{"max": 10, "visibility": "10ms", "block": "1s"})[0]
	if first.ID != id || first.Tenant != "acme" || first.Body != "hello" || first.Attempt != 1 || first.Headers["kind"] != "greeting" {
		s.t.Errorf("read %+v, want the message %s", first, id)
	}
	second := s.take(q, object{"block": "20s"})[0] // it was not acknowledged in time
	if second.ID != id || second.Attempt != 2 || second.Receipt == first.Receipt {
		s.t.Errorf("read again %+v, want the same message under another receipt", second)
	}
	s.ask("POST", q+"/ack", object{"receipts": []string{first.Receipt}}).refused(409, "stale")
	s.ask("POST", q+"/ack", object{"receipts": []string{first.Receipt, second.Receipt}}).want(200, `{"acked":1,"stale":1}`)

	written := s.ask("POST", q+"/messages", object{"tenant": "acme", "dedupe": "d"}).want(201, "")
	id = read[ops.Written](written).ID
	s.ask("POST", q+"/messages", object{"tenant": "acme", "dedupe": "d"}).want(201, `{"id":"`+id+`","duplicate":true}`)
	bytes := jsontype.Text("\xff\x00")
	s.ask("POST", q+"/messages", object{"tenant": bytes, "body": bytes}).want(201, "")
	all := s.take(q, object{"max": 10})
	if len(all) != 2 || !slices.ContainsFunc(all, func(m ops.Message) bool { return m.Tenant == bytes && m.Body == bytes }) {
		s.t.Errorf("read %+v, want two messages, one of bytes", all)
	}
	s.ask("POST", q+"/messages", object{"tenant": "a", "priority": 5}).refused(400, "bad_request")
	for _, cost := range []int{-1, 0, 1_000_001} {
		s.ask("POST", q+"/messages", object{"tenant": "a", "cost": cost}).refused(400, "bad_request")
	}
	s.ask("POST", q+"/messages", object{"tenant": "a", "per_tenant": 2}).refused(400, "bad_argument")
	s.ask("POST", q+"/messages", object{"tenant": ""}).refused(400, "bad_argument")
	s.ask("POST", q+"/receive", object{"consumer": "c"}).refused(400, "bad_request")
	s.ask("POST", q+"/messages", object{"tenant": "a", "headers": object{"h": bytes}}).refused(400, "bad_argument")
	s.ask("POST", q+"/receive", object{"max": 1001}).refused(400, "bad_request")
	s.ask("POST", q+"/receive", object{"block": "-1s"}).refused(400, "bad_request")
	s.ask("POST", q+"/receive", object{"visibility": "1ms"}).refused(400, "bad_argument")
}

func batches(s service, name string) {
	q := "/v1/queues/" + name
	wrong := s.ask("POST", q+"/messages/batch", object{"messages": []object{{"tenant": "a"}, {"tenant": ""}}}).refused(400, "bad_argument")
	if !strings.Contains(wrong.Detail, "tenant") {
		s.t.Errorf("detail %q, want to learn of the tenant", wrong.Detail)
	}
	s.ask("GET", q+"/stats", nil).refused(404, "not_found") // nothing was written
	got := read[struct{ Messages []ops.Written }](s.ask("POST", q+"/messages/batch", object{
		"streams": 4, "messages": []object{{"tenant": "a", "dedupe": "1"}, {"tenant": "b", "delay": "1h"}, {"tenant": "a", "dedupe": "1"}},
	}).want(201, "")).Messages
	if len(got) != 3 || got[0].ID != got[2].ID || !got[2].Duplicate || got[0].Duplicate || got[1].ID == got[0].ID {
		s.t.Errorf("written %+v, want two messages, and the first one again", got)
	}
	tooMany := make([]object, 1001)
	for i := range tooMany {
		tooMany[i] = object{"tenant": "a"}
	}
	p := s.ask("POST", q+"/messages/batch", object{"messages": tooMany}).refused(400, "bad_request")
	if len(p.Errors) == 0 || p.Errors[0].Location != "body.messages" {
		s.t.Errorf("errors %+v, want one at body.messages", p.Errors)
	}
}

const unknownID = "1700000000000000"

// stale returns the receipt of a delivery that was acknowledged.
func (s service) stale() string {
	q := "/v1/queues/" + redistest.Name(s.t)
	s.ask("POST", q+"/messages", object{"tenant": "a"}).want(201, "")
	receipt := s.take(q, nil)[0].Receipt
	s.ask("POST", q+"/ack", object{"receipts": []string{receipt}}).want(200, `{"acked":1,"stale":0}`)
	return receipt
}

func settling(s service, name string) {
	q := "/v1/queues/" + name
	s.ask("POST", q+"/messages/batch", object{"messages": []object{{"tenant": "a"}, {"tenant": "b"}, {"tenant": "c"}}}).want(201, "")
	taken := s.take(q, object{"max": 2})
	good, stale := taken[0].Receipt, s.stale()
	got := s.ask("POST", q+"/extend", object{"receipts": []string{good, stale}, "visibility": "1h"})
	got.want(200, `{"extended":1,"stale":1,"stale_receipts":["`+stale+`"]}`)
	s.ask("POST", q+"/extend", object{"receipts": []string{stale}, "visibility": "1h"}).refused(409, "stale")
	s.ask("POST", q+"/extend", object{"receipts": []string{good}, "visibility": "13h"}).refused(400, "bad_argument")

	s.ask("POST", q+"/nack", object{"receipts": []string{good, stale}, "delay": "1h", "reason": "later"}).want(200, `{"nacked":1,"stale":1}`)
	s.ask("POST", q+"/nack", object{"receipts": []string{good}}).refused(409, "stale")
	s.ask("POST", q+"/nack", object{"receipts": []string{taken[1].Receipt}, "delay": "1h", "dead": true}).refused(400, "bad_request")
	s.ask("POST", q+"/nack", object{"receipts": []string{"17"}}).refused(400, "bad_argument")

	cancelled := read[ops.Cancelled](s.ask("POST", q+"/cancel", object{"ids": []string{taken[0].ID, taken[1].ID, unknownID}}).want(200, ""))
	var was []string
	for _, m := range cancelled.Messages {
		was = append(was, m.Was)
	}
	if cancelled.Cancelled != 2 || !slices.Equal(was, []string{"delayed", "in_flight", "nowhere"}) {
		s.t.Errorf("cancelled %+v, want one delayed, one in flight and one nowhere", cancelled)
	}
	s.ask("POST", q+"/cancel", object{"ids": []string{taken[0].ID}}).refused(404, "not_found")

	s.ask("POST", q+"/messages/batch", object{"messages": []object{{"tenant": "c", "priority": -1, "cost": 350}, {"tenant": "c", "priority": 4, "cost": 1}}}).want(201, "")
	var priorities, costs []int
	for _, m := range s.take(q, object{"max": 1000}) {
		priorities, costs = append(priorities, m.Priority), append(costs, m.Cost)
	}
	if want := []int{0, 0, 350}; !slices.Equal(costs, want) {
		s.t.Errorf("read with the costs %v, want %v, without those of 1", costs, want)
	}
	if !slices.Equal(priorities, []int{4, 0, -1}) {
		s.t.Errorf("read with the priorities %v, want what is more urgent first", priorities)
	}
}

// TestNackIsOneCall: an invalid receipt is found before any message is changed, and one
// call gives all messages back.
func TestNackIsOneCall(t *testing.T) {
	t.Parallel()
	calls := 0
	s := serve(t, api.Config{Hooks: []millrace.Hook{onCall(func(call millrace.Call) {
		if call.Script != "fairqueue.stats" {
			calls++
		}
	})}})
	q := "/v1/queues/" + redistest.Name(t)
	s.ask("POST", q+"/messages/batch", object{"messages": []object{{"tenant": "a"}, {"tenant": "b"}, {"tenant": "c"}}}).want(201, "")
	receipts := []string{s.stale()}
	for _, m := range s.take(q, object{"max": 3}) {
		receipts = append(receipts, m.Receipt)
	}
	calls = 0
	s.ask("POST", q+"/nack", object{"receipts": append(slices.Clip(receipts), "rubbish"), "dead": true}).refused(400, "bad_argument")
	if dead := read[ops.QueueStats](s.ask("GET", q+"/stats", nil)).Dead; dead != 0 || calls != 0 {
		t.Errorf("refused, and %d are dead after %d calls, want nothing done", dead, calls)
	}
	s.ask("POST", q+"/nack", object{"receipts": receipts, "dead": true}).want(200, `{"nacked":3,"stale":1}`)
	if calls != 1 {
		t.Errorf("%d calls for four receipts, want one", calls)
	}
}

func dead(s service, name string) {
	q := "/v1/queues/" + name
	s.ask("GET", q+"/dead", nil).refused(404, "not_found")
	s.ask("POST", q+"/dead/keep", object{"max": 10}).refused(404, "not_found")
	s.ask("POST", q+"/dead/after", object{"attempts": 10}).refused(404, "not_found")
	s.ask("POST", q+"/messages/batch", object{"messages": []object{{"tenant": "a"}, {"tenant": "b"}, {"tenant": "c"}}}).want(201, "")
	var receipts, ids []string
	for _, m := range s.take(q, object{"max": 3}) {
		receipts, ids = append(receipts, m.Receipt), append(ids, m.ID)
	}
	s.ask("POST", q+"/nack", object{"receipts": receipts, "dead": true, "reason": "no such article"}).want(200, `{"nacked":3,"stale":0}`)

	type page struct {
		Dead []ops.DeadMessage
		Next string
	}
	first := read[page](s.ask("GET", q+"/dead?max=2", nil).want(200, ""))
	second := read[page](s.ask("GET", q+"/dead?max=2&after="+url.QueryEscape(first.Next), nil).want(200, ""))
	var listed []string
	for _, m := range append(first.Dead, second.Dead...) {
		if listed = append(listed, m.ID); m.Reason != "no such article" || m.Attempts != 1 || time.Since(m.WrittenAt) > time.Hour {
			s.t.Errorf("dead %+v", m)
		}
	}
	if !slices.Equal(listed, ids) || second.Next != "" {
		s.t.Errorf("dead are %v, then %q, want %v", listed, second.Next, ids)
	}
	s.ask("GET", q+"/dead?after="+unknownID, nil).refused(400, "bad_argument")
	s.ask("POST", q+"/dead/redrive", object{}).refused(400, "bad_request")
	s.ask("POST", q+"/dead/redrive", object{"ids": ids[:1], "all": true}).refused(400, "bad_request")
	s.ask("POST", q+"/dead/purge", object{"match": object{}, "all": true}).refused(400, "bad_request")
	searching(s, q, ids)
	s.ask("POST", q+"/dead/redrive", object{"ids": []string{ids[0], unknownID}}).want(200, `{"redriven":1}`)
	s.ask("POST", q+"/dead/purge", object{"ids": ids[:2]}).want(200, `{"purged":1}`)
	s.ask("POST", q+"/dead/purge", object{"all": true}).want(200, `{"purged":1}`)
	s.ask("GET", q+"/dead", nil).want(200, `{"dead":[],"next":""}`)
	s.ask("POST", q+"/dead/keep", object{"max": 10, "age": "720h"}).want(200, `{"max":10,"age_ms":2592000000}`)
	s.ask("POST", q+"/dead/keep", object{"max": 0}).want(200, `{"max":0,"age_ms":7776000000}`)
	s.ask("POST", q+"/dead/keep", object{"age": "0s"}).want(200, `{"max":10000,"age_ms":0}`)
	s.ask("POST", q+"/dead/keep", object{"max": -1}).refused(400, "bad_request")
	s.ask("POST", q+"/dead/after", object{"attempts": 25}).want(200, `{"attempts":25}`)
	s.ask("POST", q+"/dead/after", object{"attempts": 0}).want(200, `{"attempts":0}`)
	s.ask("POST", q+"/dead/after", object{"attempts": -1}).refused(400, "bad_request")
	s.ask("POST", q+"/dead/after", object{}).refused(400, "bad_request")
}

// searching finds, groups, redrives and purges three messages of a, b and c that died.
func searching(s service, q string, ids []string) {
	type page struct {
		Messages      []struct{ ID, Reason string }
		Looked, Total int
		Next          string
	}
	first := read[page](s.ask("GET", q+"/search?state=dead&look=1&reason=no+such+article", nil).want(200, ""))
	second := read[page](s.ask("GET", q+"/search?state=dead&tenant=b&after="+url.QueryEscape(first.Next), nil).want(200, ""))
	if len(first.Messages) != 1 || first.Messages[0].ID != ids[0] || first.Total != 3 || len(second.Messages) != 1 || second.Messages[0].ID != ids[1] || second.Looked != 2 {
		s.t.Errorf("found %+v, then %+v", first, second)
	}
	s.ask("GET", q+"/search?header=x%3D1", nil).want(200, `{"messages":[],"looked":0,"total":0,"next":""}`)
	s.ask("GET", q+"/search?header=x%3D1&header=y%3D1", nil).want(200, `{"messages":[],"looked":0,"total":0,"next":""}`)
	s.ask("GET", q+"/search?header=x", nil).refused(400, "bad_argument")
	s.ask("GET", q+"/search?reason=x", nil).refused(400, "bad_argument")
	s.ask("GET", q+"/dead/groups?tenant=nobody", nil).want(200, `{"groups":[],"looked":3,"total":3,"next":""}`)
	type groups struct {
		Groups []struct {
			Reason string
			Count  int
		}
	}
	if got := read[groups](s.ask("GET", q+"/dead/groups", nil).want(200, "")).Groups; len(got) != 1 || got[0].Count != 3 || got[0].Reason != "no such article" {
		s.t.Errorf("groups %+v", got)
	}
	s.ask("POST", q+"/dead/redrive", object{"match": object{"tenant": "nobody"}}).want(200, `{"redriven":0,"search":{"looked":3,"total":3,"next":""}}`)
	s.ask("POST", q+"/dead/purge", object{"match": object{"reason": "another", "look": 100}}).want(200, `{"purged":0,"search":{"looked":3,"total":3,"next":""}}`)
	s.ask("POST", q+"/dead/redrive", object{"match": object{"tenant": "c"}}).want(200, `{"redriven":1,"search":{"looked":3,"total":3,"next":""}}`)
	s.ask("POST", q+"/nack", object{"receipts": []string{s.take(q, nil)[0].Receipt}, "dead": true, "reason": "no such article"}).want(200, "")
}

// failing shows a tenant that fails, and retries its message.
func failing(s service, name string) {
	q := "/v1/queues/" + name
	s.ask("GET", q+"/failures", nil).refused(404, "not_found")
	s.ask("POST", q+"/retry", object{"all": true}).refused(404, "not_found")
	id := read[ops.Written](s.ask("POST", q+"/messages", object{"tenant": "acme"}).want(201, "")).ID
	fail := func() {
		s.ask("POST", q+"/nack", object{"receipts": []string{s.take(q, nil)[0].Receipt}, "delay": "1h", "reason": "HTTP 503"}).want(200, "")
	}
	fail()
	got := read[ops.Failures](s.ask("GET", q+"/failures", nil).want(200, ""))
	if len(got.Tenants) != 1 || len(got.Retries) != 1 || got.Looked != 1 || got.Total != 1 {
		s.t.Fatalf("failures %+v", got)
	}
	if f := got.Tenants[0]; f.Tenant != "acme" || f.Failed != 1 || f.Died != 0 || f.Reason != "HTTP 503" || f.Retrying != 1 || f.Since.IsZero() || f.Last.Before(f.Since) {
		s.t.Errorf("it fails: %+v", f)
	}
	if g := got.Retries[0]; g.Reason != "HTTP 503" || g.Count != 1 || g.Tenant != "acme" || g.Next == nil || g.Next.Sub(g.Newest) != time.Hour {
		s.t.Errorf("it is retried: %+v", g)
	}
	if other := read[ops.Failures](s.ask("GET", q+"/failures?tenant=globex", nil).want(200, "")); len(other.Tenants)+len(other.Retries) != 0 {
		s.t.Errorf("failures of another tenant: %+v", other)
	}
	s.ask("POST", q+"/retry", object{}).refused(400, "bad_request")
	s.ask("POST", q+"/retry", object{"ids": []string{id}, "all": true}).refused(400, "bad_request")
	s.ask("POST", q+"/retry", object{"match": object{"tenant": "globex"}}).want(200, `{"retried":0,"search":{"looked":1,"total":1,"next":""}}`)
	s.ask("POST", q+"/retry", object{"match": object{"reason": "HTTP #"}}).want(200, `{"retried":1,"search":{"looked":1,"total":1,"next":""}}`)
	fail()
	s.ask("POST", q+"/retry", object{"ids": []string{id, unknownID}}).want(200, `{"retried":1}`)
	fail()
	s.ask("POST", q+"/retry", object{"all": true}).want(200, `{"retried":1}`)
}

func queues(s service, name string) {
	q := "/v1/queues/" + name
	for _, path := range []string{"/pause", "/resume"} {
		s.ask("POST", q+path, nil).refused(404, "not_found")
	}
	s.ask("POST", q+"/resize", object{"streams": 4}).refused(404, "not_found")
	s.ask("POST", q+"/messages", object{"tenant": "a", "streams": 8, "per_tenant": 2}).want(201, "")
	if got := read[ops.Queues](s.ask("GET", "/v1/queues", nil).want(200, "")).Queues; !slices.Contains(got, jsontype.Text(name)) {
		s.t.Errorf("queues %v, want %s", got, name)
	}
	s.ask("POST", q+"/pause", nil).want(200, `{"paused":true}`)
	s.ask("POST", q+"/receive", nil).want(200, `{"messages":[],"paused":true}`)
	s.ask("POST", q+"/resume", "{}").want(200, `{"paused":false}`)
	s.ask("POST", q+"/pause", object{"for": "1h"}).refused(400, "bad_request")
	s.ask("POST", q+"/resize", object{"streams": 3}).want(200, `{"streams":3,"per_tenant":3,"before":{"streams":8,"per_tenant":2}}`)
	s.ask("POST", q+"/resize", object{"streams": 4, "per_tenant": 5}).refused(400, "bad_argument")
	s.ask("POST", q+"/resize", object{"streams": 0}).want(200, `{"streams":0,"per_tenant":0,"before":{"streams":3,"per_tenant":3}}`)
	s.ask("POST", q+"/messages", object{"tenant": "b"}).want(201, "")
	stats := read[ops.QueueStats](s.ask("GET", q+"/stats", nil).want(200, ""))
	if stats.Waiting != 2 || stats.Shape != (ops.Shape{}) || stats.Counters.Written != 2 || string(stats.Name) != name {
		s.t.Errorf("stats %+v, want two messages and a flow for each tenant", stats)
	}
	flows := map[jsontype.Text]int{}
	for _, f := range stats.Flows {
		flows[f.Tenant] = f.Stream
	}
	if stream, ok := flows[""]; stats.FlowCount != 2 || len(flows) != 2 || !ok || stream < 0 || flows["b"] != -1 {
		s.t.Errorf("flows %+v, want a stream and the tenant b", stats.Flows)
	}
	from := object{"tenant": "b", "source": "a table", "position": 1}
	s.ask("POST", q+"/messages", from).want(201, "")
	s.ask("POST", q+"/messages", from).want(201, `{"id":"","duplicate":true}`)
	s.ask("POST", q+"/messages", object{"tenant": "b", "source": "a table", "position": 3}).refused(409, "position_gap")
	s.ask("POST", q+"/messages", object{"tenant": "b", "source": "a table"}).refused(400, "bad_argument")
	s.ask("GET", q+"/position?source=a+table", nil).want(200, `{"source":"a table","position":1}`)
	s.ask("POST", q+"/position", object{"source": "a table", "position": 5}).want(200, `{"source":"a table","position":5}`)
	s.ask("GET", q+"/position?source=a+table", nil).want(200, `{"source":"a table","position":5}`)
	s.ask("GET", q+"/sources", nil).want(200, `{"sources":[{"source":"a table","position":5}]}`)
	s.ask("GET", q+"/position", nil).refused(400, "bad_request")
	s.ask("DELETE", q, nil).want(200, "")
	s.ask("DELETE", q, nil).want(200, `{"deleted":0}`)
}

// tenants limits, pauses and purges tenants.
func tenants(s service, name string) {
	q := "/v1/queues/" + name
	s.ask("GET", q+"/tenants", nil).refused(404, "not_found")
	s.ask("GET", q+"/limits", nil).refused(404, "not_found")
	const none = `"max_share":0,"rate":0,"burst":0,"max_waiting":0,"paused":false`
	s.ask("POST", q+"/tenants/limit", object{"max_in_flight": 10}).want(200, `{"own":["max_in_flight"],"limits":{"weight":1,"max_in_flight":10,`+none+`}}`)
	s.ask("POST", q+"/tenants/limit", object{"tenant": "b", "weight": 2.5}).want(200, `{"tenant":"b","own":["weight"],"limits":{"weight":2.5,"max_in_flight":10,`+none+`}}`)
	s.ask("POST", q+"/tenants/limit", object{"tenant": "acme", "rate": "120/m", "burst": 3}).
		want(200, `{"tenant":"acme","own":["rate","burst"],"limits":{"weight":1,"max_in_flight":10,"max_share":0,"rate":2,"burst":3,"max_waiting":0,"paused":false}}`)
	s.ask("POST", q+"/tenants/limit", object{"tenant": "b", "weight": 0}).refused(400, "bad_request")
	s.ask("POST", q+"/tenants/limit", object{"tenant": "b", "rate": "5/y"}).refused(400, "bad_request")
	s.ask("GET", q+"/limits?tenant=c", nil).want(200, `{"tenant":"c","own":[],"limits":{"weight":1,"max_in_flight":10,`+none+`}}`)
	s.ask("POST", q+"/tenants/limit", object{"max_in_flight": 3, "weight": 1.5, "if_unset": true}).want(200, `{"own":["weight","max_in_flight"],"limits":{"weight":1.5,"max_in_flight":10,`+none+`}}`)
	s.ask("POST", q+"/tenants/clear", object{"limits": []string{"weight"}}).want(200, `{"own":["max_in_flight"],"limits":{"weight":1,"max_in_flight":10,`+none+`}}`)
	s.ask("POST", q+"/tenants/clear", object{"limits": []string{"height"}}).refused(400, "bad_request")
	if all := read[ops.StoredLimits](s.ask("GET", q+"/limits/all", nil).want(200, "")).Limits; len(all) != 3 || all[0].Tenant.Tenant != "" {
		s.t.Errorf("limits %+v", all)
	}
	s.ask("POST", q+"/tenants/limit", object{"tenant": "full", "max_waiting": 1}).want(200, "")
	s.ask("POST", q+"/messages", object{"tenant": "full"}).want(201, "")
	s.ask("POST", q+"/messages", object{"tenant": "full"}).refused(429, "tenant_full")
	s.ask("POST", q+"/messages", object{"tenant": "acme"}).want(201, "")
	s.ask("POST", q+"/tenants/pause", object{"tenant": "full", "for": "1h"}).want(200, `{"tenant":"full","paused":true,"for_ms":3600000}`)
	s.ask("POST", q+"/tenants/pause", object{"tenant": "acme"}).want(200, `{"tenant":"acme","paused":true}`)
	s.ask("POST", q+"/tenants/pause", object{}).refused(400, "bad_argument")
	if l := read[ops.TenantLimits](s.ask("GET", q+"/limits?tenant=full", nil).want(200, "")); !l.Limits.Paused || l.PausedUntil == nil {
		s.t.Errorf("a paused tenant has the limits %+v", l)
	}
	s.ask("GET", q+"/limits?tenant=acme", nil).want(200, `{"tenant":"acme","own":["rate","burst"],"limits":{"weight":1,"max_in_flight":10,"max_share":0,"rate":2,"burst":3,"max_waiting":0,"paused":true}}`)
	s.ask("POST", q+"/receive", nil).want(200, `{"messages":[]}`)
	states := map[string]string{}
	for _, t := range read[ops.Tenants](s.ask("GET", q+"/tenants", nil).want(200, "")).Tenants {
		states[t.String()] = t.State
	}
	if diff := cmp.Diff(map[string]string{"full": "asleep", "acme": "paused"}, states); diff != "" {
		s.t.Errorf("states (-want +got):\n%s", diff)
	}
	s.ask("POST", q+"/tenants/resume", object{"tenant": "acme"}).want(200, `{"tenant":"acme","paused":false}`)
	if got := read[ops.Messages](s.ask("POST", q+"/receive", nil).want(200, "")).Messages; len(got) != 1 || got[0].Tenant != "acme" {
		s.t.Errorf("messages %+v", got)
	}
	s.ask("POST", q+"/tenants/purge", object{"tenant": "full"}).want(200, `{"tenant":"full","purged":1}`)
	s.ask("POST", q+"/tenants/clear", object{"tenant": "b"}).want(200, `{"tenant":"b","own":[],"limits":{"weight":1,"max_in_flight":10,`+none+`}}`)
	s.ask("POST", q+"/resize", object{"streams": 4}).refused(400, "bad_argument")
}

func browsing(s service, name string) {
	q := "/v1/queues/" + name
	s.ask("GET", q+"/browse", nil).refused(404, "not_found")
	s.ask("POST", q+"/messages/batch", object{"streams": 8, "messages": []object{
		{"tenant": "a", "body": "1"}, {"tenant": "a", "body": "2"}, {"tenant": "b", "deadline": "1h", "priority": -4, "cost": 7}, {"tenant": "c", "delay": "1h"},
	}}).want(201, "")
	type page struct {
		Messages []struct {
			ID, Tenant, Body           string
			Stream, Attempts, Priority int
			Cost                       int
			Since, Until, Deadline     time.Time
			Consumed                   bool
		}
		Next string
	}
	browse := func(query string) page { return read[page](s.ask("GET", q+"/browse?"+query, nil).want(200, "")) }
	first := browse("tenant=a&max=1")
	second := browse("tenant=a&max=1&after=" + url.QueryEscape(first.Next))
	if len(first.Messages) != 1 || len(second.Messages) != 1 || first.Messages[0].Body+second.Messages[0].Body != "12" && first.Messages[0].Body+second.Messages[0].Body != "21" {
		s.t.Errorf("pages %+v and %+v, want the two messages of a", first, second)
	}
	if got := browse("place=delayed").Messages; len(got) != 1 || got[0].Tenant != "c" || time.Until(got[0].Until) < time.Minute {
		s.t.Errorf("delayed %+v, want the message of c", got)
	}
	if got := browse("tenant=b").Messages; len(got) != 1 || time.Until(got[0].Deadline) < time.Minute || got[0].Priority != -4 || got[0].Cost != 7 {
		s.t.Errorf("of b %+v, want its message with its deadline, its priority and its cost", got)
	}
	s.take(q, nil)
	if got := browse("place=in_flight").Messages; len(got) != 1 || got[0].Consumed || got[0].Since.IsZero() || got[0].Attempts != 1 {
		s.t.Errorf("in flight %+v, want one message that somebody read", got)
	}
	s.ask("GET", q+"/browse?place=nowhere", nil).refused(400, "bad_request")
	s.ask("GET", q+"/browse?after=x", nil).refused(400, "bad_argument")
}

func icks(s service, name string) {
	k := "/v1/icks/" + name
	s.ask("GET", k+"/stats", nil).refused(404, "not_found")
	s.ask("POST", k+"/reserve", object{"max": 2}).want(200, `{"token":"","entries":[]}`)
	s.ask("POST", k+"/marks", object{"marks": []object{
		{"member": "a", "score": 1.5}, {"member": "b", "score": "-inf"}, {"member": jsontype.Text("\xff"), "score": "inf"},
	}}).want(200, `{"new":3,"lowered":0}`)
	s.ask("POST", k+"/marks", object{"members": []string{"a", "c"}}).want(200, `{"new":1,"lowered":0}`)
	s.ask("POST", k+"/marks", object{}).refused(400, "bad_request")
	s.ask("POST", k+"/marks", object{"marks": []object{{"member": "a", "score": "now"}}}).refused(400, "bad_request")

	r := read[ops.Reserved](s.ask("POST", k+"/reserve", object{"max": 2}).want(200, ""))
	if len(r.Entries) != 2 || r.Entries[0].Member != "b" || r.Entries[1] != (ops.Entry{Member: "a", Score: 1.5}) {
		s.t.Errorf("reserved %+v, want b and a", r)
	}
	s.ask("POST", k+"/commit", object{"token": r.Token, "members": []string{"b", "nobody"}}).want(200, `{"committed":1,"kept":0}`)
	s.ask("POST", k+"/commit", object{"token": r.Token, "members": []string{"b"}}).refused(409, "stale")
	s.ask("POST", k+"/commit", object{"token": "no token", "members": []string{"b"}}).refused(400, "bad_argument")
	x := read[ops.Exchanged](s.ask("POST", k+"/exchange", object{"token": r.Token, "members": []string{"a"}, "max": 1}).want(200, ""))
	if x.Committed.Committed != 1 || len(x.Entries) != 1 || x.Entries[0].Member != "c" {
		s.t.Errorf("exchanged %+v, want a committed and c reserved", x)
	}
	s.ask("POST", k+"/exchange", object{"members": []string{"a"}, "max": 1}).refused(400, "bad_request")
	if got := read[ops.Reserved](s.ask("POST", k+"/reserve", object{"max": 9, "settle": "1h", "backwash": true}).want(200, "")); len(got.Entries) != 1 {
		s.t.Errorf("reserved with a settle time %+v, want c, which is reserved, and not what is dirty since the end of time", got)
	}
	stats := read[ops.IckStats](s.ask("GET", k+"/stats", nil).want(200, ""))
	if stats.TotalSize != 2 || stats.Counters.Committed != 2 || stats.Newest == nil || string(stats.Key) != name {
		s.t.Errorf("stats %+v, want two marks", stats)
	}
	if got := read[ops.Icks](s.ask("GET", "/v1/icks", nil).want(200, "")).Icks; !slices.Contains(got, jsontype.Text(name)) {
		s.t.Errorf("icks %v, want %s", got, name)
	}
	s.ask("DELETE", k+"?force=true", nil).want(200, "")
	s.ask("DELETE", k, nil).want(200, `{"deleted":0}`)
}

func parked(s service, name string) {
	k := "/v1/icks/" + name
	s.ask("GET", k+"/parked", nil).refused(404, "not_found")
	direct, err := ick.New(redistest.Shared(s.t).Client(s.t), name, ick.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.ask("POST", k+"/marks", object{"members": []string{"a", "b", "c"}}).want(200, `{"new":3,"lowered":0}`)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	_ = direct.Consume(ctx, ick.ConsumeConfig{MaxAttempts: 1}, func(context.Context, []ick.Entry) error {
		time.AfterFunc(100*time.Millisecond, cancel)
		return errors.Join(ick.Failed(nil, "a", "b"), ick.Failed(nil, "c"))
	})
	type page struct {
		Parked []ops.ParkedMember
		More   bool
	}
	redistest.Eventually(s.t, "three parked", func() bool {
		return len(read[page](s.ask("GET", k+"/parked", nil).want(200, "")).Parked) == 3
	})
	if got := read[page](s.ask("GET", k+"/parked?max=2", nil).want(200, "")); len(got.Parked) != 2 || !got.More {
		s.t.Errorf("parked, 2 at most: %+v, want two and more", got)
	}
	s.ask("POST", k+"/parked/retry", object{"members": []string{"a", "nobody"}}).want(200, `{"retried":1}`)
	s.ask("POST", k+"/parked/retry", object{}).refused(400, "bad_request")
	s.ask("POST", k+"/parked/drop", object{"members": []string{"b"}}).want(200, `{"dropped":1}`)
	s.ask("POST", k+"/parked/drop", object{"all": true}).want(200, `{"dropped":1}`)
	s.ask("GET", k+"/parked", nil).want(200, `{"parked":[],"more":false}`)
}

func channels(s service, name string) {
	c := "/v1/channels/" + name
	s.ask("GET", c+"/stats", nil).refused(404, "not_found")
	s.ask("POST", c+"/marks", object{"members": []string{"a", "b"}, "marks": []object{{"member": "a", "score": 1}}}).refused(400, "bad_request")
	s.ask("POST", c+"/marks", object{"marks": []object{{"member": "a", "score": 1.5}, {"member": jsontype.Text("\xff"), "score": 2}}}).want(200, `{"new":2,"lowered":0}`)
	s.ask("POST", c+"/marks", object{"members": []string{"a", "b"}}).want(200, `{"new":1,"lowered":0}`)
	s.ask("POST", c+"/resize", object{"size": 1025}).refused(400, "bad_request")
	s.ask("POST", c+"/resize", object{"size": 2}).want(200, `{"size":2}`)

	one := func(more object) ops.ChannelTaken {
		more["worker"] = "one"
		return read[ops.ChannelTaken](s.ask("POST", c+"/work", more).want(200, ""))
	}
	first := one(object{"max": 10, "block": "1s"})
	var done, failed []object
	seen := []string{}
	for _, b := range first.Batches {
		for _, e := range b.Entries {
			seen = append(seen, string(e.Member))
			settled := object{"token": b.Token, "members": []jsontype.Text{e.Member}}
			if e.Member == "b" {
				settled["reason"] = "too large"
				failed = append(failed, settled)
			} else {
				done = append(done, settled)
			}
		}
	}
	if slices.Sort(seen); !slices.Equal(seen, []string{"a", "b", "\xff"}) {
		s.t.Fatalf("the worker has %q", seen)
	}
	s.ask("POST", c+"/work", object{"worker": "two", "max": 10}).want(200, `{"batches":[],"committed":0,"kept":0}`)
	if got := one(object{"max": 0, "lease": "1m"}); len(got.Batches) != 0 {
		s.t.Errorf("to keep its lists the worker gets %+v", got)
	}
	k := key(name)
	for range 2 { // the second one is a repeat after a lost answer
		s.ask("POST", c+"/work", object{"worker": "one", "max": 10, "done": done, "failed": failed}, k).want(200, `{"batches":[],"committed":2,"kept":0}`)
	}
	s.ask("POST", c+"/work", object{"worker": "one", "max": 10, "done": failed}).refused(400, "bad_request")
	s.ask("POST", c+"/work", object{"worker": "one", "max": 10, "done": done, "failed": done}).refused(400, "bad_request")
	s.ask("POST", c+"/work", object{"worker": "one", "max": 10, "done": []object{{"token": "1-ABCDEFGH", "members": []string{"a"}}}}).refused(400, "bad_argument")
	s.ask("POST", c+"/work", object{"worker": "one", "max": 10, "lease": "2h"}).refused(400, "bad_argument")
	s.ask("POST", c+"/work", object{"max": 10}).refused(400, "bad_request")
	s.ask("POST", c+"/work", object{"worker": strings.Repeat("é", 64), "max": 10}).refused(400, "bad_argument")

	parked := read[ops.ParkedPage](s.ask("GET", "/v1/icks/"+name+"%2F0/parked", nil)).Parked
	parked = append(parked, read[ops.ParkedPage](s.ask("GET", "/v1/icks/"+name+"%2F1/parked", nil)).Parked...)
	parked = append(parked, read[ops.ParkedPage](s.ask("GET", "/v1/icks/"+name+"%2F2/parked", nil)).Parked...)
	parked = append(parked, read[ops.ParkedPage](s.ask("GET", "/v1/icks/"+name+"%2F3/parked", nil)).Parked...)
	if len(parked) != 1 || parked[0].Member != "b" || parked[0].Reason != "too large" {
		s.t.Errorf("parked %+v, want b", parked)
	}
	stats := read[ops.ChannelStats](s.ask("GET", c+"/stats", nil).want(200, ""))
	if stats.Size != 2 || stats.Consumers != 2 || stats.Distinct != 0 || stats.Parked != 1 || stats.Counters.Committed != 2 {
		s.t.Errorf("stats %+v", stats)
	}
	for _, worker := range []string{"one", "two"} {
		s.ask("POST", c+"/work", object{"worker": worker, "max": 0, "leave": true}).want(200, `{"batches":[],"committed":0,"kept":0}`)
	}
	if got := read[ops.Channels](s.ask("GET", "/v1/channels", nil).want(200, "")).Channels; !slices.Contains(got, jsontype.Text(name)) {
		s.t.Errorf("channels %v, want %s", got, name)
	}
	s.ask("DELETE", c, nil).want(200, `{"lost":1}`)
	s.ask("DELETE", c, nil).want(200, `{"lost":0}`)
}

func leases(s service, name string) {
	l := "/v1/leases/" + name
	s.ask("GET", l, nil).want(200, `{"held":false,"fence":0}`)
	first := read[ops.Acquired](s.ask("POST", l+"/acquire", object{"ttl": "24h", "metadata": "host a"}).want(200, ""))
	if left := time.Until(time.UnixMilli(first.Deadline)); left < 23*time.Hour || left > 25*time.Hour || first.Fence == 0 {
		s.t.Errorf("acquired %+v, want it for a day", first)
	}
	held := s.ask("POST", l+"/acquire", object{"ttl": "10m", "wait": "50ms"}).refused(409, "held")
	if held.Metadata != "host a" || held.Remaining == nil || *held.Remaining < 23*3600_000 || held.Fence != first.Fence || !strings.Contains(held.Hint, "wait") {
		s.t.Errorf("held %+v, want to learn of the holder", held)
	}
	if got := read[ops.Acquired](s.ask("POST", l+"/acquire", object{"ttl": "10m", "token": first.Token}).want(200, "")); got.Fence != first.Fence {
		s.t.Errorf("adopted %+v, want the same lease as %+v", got, first)
	}
	s.ask("POST", l+"/refresh", object{"token": first.Token, "ttl": "48h"}).want(200, "")
	s.ask("POST", l+"/refresh", object{"token": "another", "ttl": "48h"}).refused(409, "lost")
	shown := read[ops.LeaseState](s.ask("GET", l, nil).want(200, ""))
	if !shown.Held || *shown.Token != jsontype.Text(first.Token) || *shown.Metadata != "host a" || *shown.Remaining < 47*3600_000 {
		s.t.Errorf("shown %+v, want it held for two days", shown)
	}
	if got := read[struct{ Leases []jsontype.Text }](s.ask("GET", "/v1/leases", nil).want(200, "")).Leases; !slices.Contains(got, jsontype.Text(name)) {
		s.t.Errorf("leases %v, want %s", got, name)
	}
	s.ask("POST", l+"/release", object{"token": "another"}).refused(409, "lost")
	s.ask("POST", l+"/release", object{"token": first.Token}).want(200, `{"released":true}`)
	second := read[ops.Acquired](s.ask("POST", l+"/acquire", object{"ttl": "30s", "allow_evictable": true}).want(200, ""))
	if second.Fence <= first.Fence {
		s.t.Errorf("fences %d and %d, want the second to be larger", first.Fence, second.Fence)
	}
	s.ask("POST", l+"/acquire", object{"ttl": "1ms"}).refused(400, "bad_argument")
	s.ask("POST", l+"/acquire", object{"ttl": "9000h"}).refused(400, "bad_argument")
	s.ask("POST", l+"/acquire", object{}).refused(400, "bad_request")
}

func hashes(s service, name string) {
	h := "/v1/hashes/" + name + "/user:17"
	s.ask("GET", h, nil).want(200, `{"fields":[]}`)
	s.ask("POST", h+"/set", object{"fields": object{"token": "3f9a", `{"base64":"/w=="}`: jsontype.Text("\xff")}}).want(200, `{"set":true}`)
	s.ask("GET", h, nil).want(200, `{"fields":[{"field":"token","value":"3f9a","ttl_ms":-1},{"field":{"base64":"/w=="},"value":{"base64":"/w=="},"ttl_ms":-1}]}`)
	s.ask("POST", h+"/set", object{"fields": object{"token": "x"}, "if": "none"}).want(200, `{"set":false}`)
	s.ask("POST", h+"/set", object{"fields": object{"token": "x"}, "if": "exist", "ttl": "1h"}).want(200, `{"set":true}`)
	s.ask("POST", h+"/set", object{"fields": object{"token": "y"}, "keep_ttl": true}).want(200, `{"set":true}`)
	s.ask("POST", h+"/set", object{"fields": object{"token": "y"}, "keep_ttl": true, "ttl": "1s"}).refused(400, "bad_argument")
	s.ask("POST", h+"/set", object{"fields": object{`{"base64":"?"}`: "y"}}).refused(400, "bad_argument")
	twice := s.ask("POST", h+"/set", object{"fields": object{"token": "1", `{"base64":"dG9rZW4="}`: "2"}}).refused(400, "bad_request")
	if !strings.Contains(twice.Detail, `"token"`) {
		s.t.Errorf("detail %q, want the field that has two values", twice.Detail)
	}
	some := read[ops.Fields](s.ask("GET", h+"?field=token&field=nobody", nil).want(200, "")).Fields
	if len(some) != 1 || some[0].Value != "y" || some[0].TTL < 3500_000 {
		s.t.Errorf("fields %+v, want token for an hour", some)
	}
	s.ask("GET", h+"?field=%FF", nil).want(200, `{"fields":[{"field":{"base64":"/w=="},"value":{"base64":"/w=="},"ttl_ms":-1}]}`)
	s.ask("POST", h+"/incr", object{"field": "n", "by": 9007199254740993}).want(200, `{"value":9007199254740993}`)
	s.ask("POST", h+"/incr", object{"field": "token", "by": 1}).refused(409, "not_a_number")
	s.ask("POST", h+"/incr", `{"field":"n","by":1.5}`).refused(400, "bad_request")
	s.ask("POST", h+"/incr", `{"field":"n","by":1e30}`).refused(400, "bad_request")
	s.ask("POST", h+"/expire", object{"fields": []string{"token", "n", "nobody"}, "ttl": "2h", "if": "ttl"}).
		want(200, `{"fields":[{"field":"token","outcome":"applied"},{"field":"n","outcome":"not_met"},{"field":"nobody","outcome":"no_field"}]}`)
	s.ask("POST", h+"/persist", object{"fields": []string{"token", "n"}}).
		want(200, `{"fields":[{"field":"token","outcome":"applied"},{"field":"n","outcome":"no_ttl"}]}`)
	s.ask("POST", h+"/expire", object{"fields": []string{"n"}, "ttl": "0s"}).want(200, `{"fields":[{"field":"n","outcome":"removed"}]}`)
	s.ask("POST", h+"/delete", object{"fields": []string{"token", "n"}}).want(200, `{"deleted":1}`)
	if got := read[struct{ Namespaces []jsontype.Text }](s.ask("GET", "/v1/hashes", nil).want(200, "")).Namespaces; !slices.Contains(got, jsontype.Text(name)) {
		s.t.Errorf("namespaces %v, want %s", got, name)
	}
	s.ask("DELETE", h, nil).want(200, `{"deleted":1}`)
	s.ask("GET", h, nil).want(200, `{"fields":[]}`)
}

func pinnedValues(s service, name string) {
	p := "/v1/pinned/" + name + "/user:17"
	s.ask("GET", p, nil).refused(404, "not_found")
	s.ask("POST", p+"/set", object{"value": "on", "ttl": "1h", "if": "exist"}).want(200, `{"set":false}`)
	s.ask("POST", p+"/set", object{"value": jsontype.Text("\xff"), "ttl": "1h"}, key(name)).want(200, `{"set":true}`)
	s.ask("POST", p+"/set", object{"value": "off", "ttl": "1h", "if": "none"}).want(200, `{"set":false}`)
	s.ask("POST", p+"/set", object{"value": jsontype.Text("\xff"), "ttl": "1h"}, key(name)).want(200, `{"set":true}`)
	if got := read[ops.PinnedValue](s.ask("GET", p, nil).want(200, "")); got.Value != "\xff" || got.TTL < 3500_000 || got.TTL > 3600_000 {
		s.t.Errorf("pinned %+v, want it for an hour", got)
	}
	s.ask("POST", p+"/expire", object{"ttl": "2h"}).want(200, `{"exists":true}`)
	if got := read[ops.PinnedValue](s.ask("GET", p, nil).want(200, "")); got.TTL < 7000_000 {
		s.t.Errorf("pinned %+v, want it for two hours", got)
	}
	s.ask("POST", p+"/expire", object{"ttl": "0s"}).refused(400, "bad_argument")
	s.ask("POST", p+"/set", object{"value": "on", "ttl": "0s"}).refused(400, "bad_argument")
	s.ask("POST", p+"/set", object{"value": "on"}).refused(400, "bad_request")
	s.ask("GET", "/v1/pinned/http/x", nil).refused(400, "bad_name")
	s.ask("GET", "/v1/pinned/"+name+"/%7B", nil).refused(400, "bad_name")
	if got := read[ops.Namespaces](s.ask("GET", "/v1/pinned", nil).want(200, "")).Namespaces; !slices.Contains(got, jsontype.Text(name)) {
		s.t.Errorf("namespaces %v, want %s", got, name)
	}
	s.ask("DELETE", p, nil).want(200, `{"deleted":1}`)
	s.ask("DELETE", p, nil).want(200, `{"deleted":0}`)
	s.ask("POST", p+"/expire", object{"ttl": "1h"}).want(200, `{"exists":false}`)
}

func trackers(s service, name string) {
	t := "/v1/trackers/" + name
	s.ask("GET", t+"/queued?id=a&id=%FF", nil).want(200, `{"answers":[{"id":"a","state":"unknown","age_ms":0},{"id":{"base64":"/w=="},"state":"unknown","age_ms":0}]}`)
	s.ask("POST", t+"/add", object{"ids": []jsontype.Text{"a", "\xff"}}).want(200, `{}`)
	got := read[ops.TrackerAnswers](s.ask("GET", t+"/queued?id=%FF&id=b", nil).want(200, "")).Answers
	if len(got) != 2 || got[0].State != "queued" || got[0].ID != "\xff" || got[1].State != "unknown" {
		s.t.Errorf("answers %+v", got)
	}
	direct, err := tracker.New(redistest.Shared(s.t).Client(s.t), name, tracker.Config{Source: noRows{}})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := direct.Fill(s.t.Context(), nil); err != nil {
		s.t.Fatal(err)
	}
	if got := read[ops.TrackerAnswers](s.ask("GET", t+"/queued?id=b", nil).want(200, "")).Answers; len(got) != 1 || got[0].State != "not_queued" {
		s.t.Errorf("after a pass %+v", got)
	}
	if got := read[ops.TrackerStats](s.ask("GET", t+"/stats", nil).want(200, "")); got.Tracked != 2 || got.Passes != 1 || got.Counters.Added != 2 {
		s.t.Errorf("stats %+v", got)
	}
	s.ask("GET", t+"/queued", nil).refused(400, "bad_request")
	s.ask("GET", t+"/queued?id=", nil).refused(400, "bad_request")
	s.ask("GET", t+"/queued?id=a&id=", nil).refused(400, "bad_argument")
	s.ask("GET", t+"/queued?id="+strings.Repeat("x", 513), nil).refused(400, "bad_argument")
	s.ask("GET", t+"/queued?id="+strings.Repeat("x&id=", 1000)+"x", nil).refused(400, "bad_request")
	s.ask("POST", t+"/add", object{"ids": []string{}}).refused(400, "bad_request")
	s.ask("GET", "/v1/queues/q/search?id=1&id=2", nil).refused(400, "bad_request") // there it is one
	if got := read[ops.Trackers](s.ask("GET", "/v1/trackers", nil).want(200, "")).Trackers; !slices.Contains(got, jsontype.Text(name)) {
		s.t.Errorf("trackers %v, want %s", got, name)
	}
	s.ask("DELETE", t, nil).want(200, `{"deleted":2}`)
	s.ask("DELETE", t, nil).want(200, `{"deleted":0}`)
}

// noRows is a table without rows.
type noRows struct{}

func (noRows) Rows(context.Context, string, int) (tracker.Page, error) { return tracker.Page{}, nil }
func (noRows) Pending(context.Context, []string) ([]string, error)     { return nil, nil }

func counters(s service, name string) {
	c := "/v1/counters/" + name
	s.ask("POST", c+"/add", object{"n": 5}).want(200, "")
	s.ask("POST", c+"/add", object{"n": -2, "shard_key": "ad:17"}).want(200, "")
	s.ask("GET", c, nil).want(200, `{"value":3,"servers":1,"answered":1}`)
	s.ask("GET", "/v1/counters/nobody-"+name, nil).want(200, `{"value":0,"servers":1,"answered":1}`)
	s.ask("GET", "/v1/counters/a%01", nil).refused(400, "bad_name")
	s.ask("POST", "/v1/counters/mr:x/add", object{"n": 1}).refused(400, "bad_name")
	s.ask("POST", "/v1/icks/mr:audit/reserve", object{"max": 1}).refused(400, "bad_name")
	s.ask("POST", "/v1/queues/mr:q/messages", object{"tenant": "a"}).refused(400, "bad_name")
	s.ask("POST", "/v1/leases/mr:l/acquire", object{"ttl": "1s"}).refused(400, "bad_name")
	s.ask("POST", c+"/add", object{"n": 9223372036854775807}).refused(409, "overflow")

	clicks, odd := name+":clicks", name+"\xff"
	session := func(counts any) object { return object{"counts": counts} }
	s.ask("POST", "/v1/counters", session(object{clicks: 2, `{"base64":"` + base64.StdEncoding.EncodeToString([]byte(odd)) + `"}`: -7})).want(200, `{"counters":2,"server":"0"}`)
	s.ask("POST", "/v1/counters", object{"counts": object{clicks: 1}, "shard_key": "ad:17", "every": "1m"}).want(200, "")
	s.ask("GET", "/v1/counters?name="+url.QueryEscape(odd)+"&name="+clicks+"&name="+name, nil).want(200, fmt.Sprintf(
		`{"counters":[{"name":%s,"value":-7},{"name":%q,"value":2},{"name":%q,"value":3}],"servers":1,"answered":1}`, asJSON(s.t, jsontype.Text(odd)), clicks, name))
	buckets, err := scatter.Bucket{}.Keys(clicks, time.Now().Add(-time.Minute), time.Now().Add(time.Minute))
	if err != nil {
		s.t.Fatal(err)
	}
	sum := int64(0)
	for _, c := range read[ops.Sums](s.ask("GET", "/v1/counters?name="+strings.Join(buckets, "&name="), nil).want(200, "")).Counters {
		sum += c.Value
	}
	if sum != 1 {
		s.t.Errorf("the buckets of this minute have %d, want 1", sum)
	}
	s.ask("POST", "/v1/counters", session(object{clicks: 1, name: 9223372036854775807})).refused(409, "overflow")
	s.ask("GET", "/v1/counters/"+clicks, nil).want(200, `{"value":2,"servers":1,"answered":1}`) // none of the session
	s.ask("POST", "/v1/counters", session(object{})).refused(400, "bad_request")
	s.ask("POST", "/v1/counters", session(object{"mr:x": 1})).refused(400, "bad_name")
	s.ask("POST", "/v1/counters", session(object{"a": 1, `{"base64":"YQ=="}`: 2})).refused(400, "bad_request")
	s.ask("POST", "/v1/counters", session(object{`{"base64":"?"}`: 2})).refused(400, "bad_argument")
	s.ask("POST", "/v1/counters", `{"counts":{"a":1.5}}`).refused(400, "bad_request")
	s.ask("POST", "/v1/counters", object{"counts": object{"a": 1}, "every": "1500ms"}).refused(400, "bad_argument")
	s.ask("GET", "/v1/counters", nil).refused(400, "bad_request")
	s.ask("GET", "/v1/counters?name=mr:x", nil).refused(400, "bad_name")
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestListsInPart: an incomplete list is returned, and says that it is incomplete.
func TestListsInPart(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	s := serve(t, api.Config{Client: client})
	s.ask("POST", "/v1/queues/orders/messages", map[string]any{"tenant": "a", "body": "x"}).want(201, "")
	s.ask("GET", "/v1/queues", nil).want(200, `{"queues":["orders"]}`)
	for _, key := range []string{"mr:registry:{3}", "mr:leases:{3}"} {
		if err := client.Do(t.Context(), client.B().Set().Key(key).Value("x").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	const registry = `"incomplete":"1 of 16 parts of the registry could not be read"`
	s.ask("GET", "/v1/queues", nil).want(200, `{"queues":["orders"],`+registry+`}`)
	s.ask("GET", "/v1/icks", nil).want(200, `{"icks":[],`+registry+`}`)
	s.ask("GET", "/v1/hashes", nil).want(200, `{"namespaces":[],`+registry+`}`)
	s.ask("GET", "/v1/leases", nil).want(200, `{"leases":[],"incomplete":"1 of 64 parts of the index of leases could not be read"}`)
}

// showing finds a message in each state, and says what it waits for.
func showing(s service, name string) {
	t, q := s.t, "/v1/queues/"+name
	write := func(draft object) string {
		t.Helper()
		return read[ops.Written](s.ask("POST", q+"/messages", draft).want(201, "")).ID
	}
	first := write(object{"tenant": "a"})
	later := write(object{"tenant": "a", "delay": "1h"})
	show := func(id string) ops.ShownMessage {
		t.Helper()
		return read[ops.ShownMessage](s.ask("GET", q+"/messages/"+id, nil).want(200, ""))
	}
	if m := show(first); m.State != "waiting" || m.WaitsFor != "turn" || m.ID != first || m.Attempts != 0 {
		t.Errorf("the message is %+v, want it to wait for its turn", m)
	}
	s.ask("POST", q+"/tenants/pause", object{"tenant": "a"}).want(200, "")
	if m := show(first); m.WaitsFor != "pause" {
		t.Errorf("the message of a paused tenant is %+v, want it to wait for the pause", m)
	}
	s.ask("POST", q+"/tenants/resume", object{"tenant": "a"}).want(200, "")
	if m := show(later); m.State != "delayed" || m.WaitsFor != "" || m.Until == nil {
		t.Errorf("the message is %+v, want it to be delayed", m)
	}
	taken := s.take(q, nil)[0]
	if m := show(first); m.State != "in_flight" || m.Until == nil || m.Attempts != 1 {
		t.Errorf("the message is %+v, want it in flight", m)
	}
	s.ask("POST", q+"/nack", object{"receipts": []string{taken.Receipt}, "dead": true, "reason": "no such street"}).want(200, "")
	if m := show(first); m.State != "dead" || m.Reason != "no such street" || m.Since == nil {
		t.Errorf("the message is %+v, want it dead", m)
	}
	s.ask("POST", q+"/dead/purge", object{"ids": []string{first}}).want(200, "")
	s.ask("GET", q+"/messages/"+first, nil).refused(404, "not_found")
	s.ask("GET", q+"/messages/17", nil).refused(400, "bad_argument")
}
