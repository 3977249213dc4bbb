package fairqueue

import (
	"strconv"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/shuffleshard"
)

// maxName is the longest name of a queue, in bytes.
const maxName = 512

// baseKey is the hash that is the queue's record. The names of all keys start with it, so
// that they lie in one slot of a Redis Cluster.
func baseKey(name string) string { return "mr:queue:{" + name + "}" }

func checkName(name string) error {
	return names.Check(millrace.ErrBadName, "name of a queue", name, maxName)
}

// The byte 1 separates a flow from the rest of a member, so a tenant must not contain it.
// The byte 2 escapes both.
var (
	escape   = strings.NewReplacer("\x01", "\x02a", "\x02", "\x02b")
	unescape = strings.NewReplacer("\x02a", "\x01", "\x02b", "\x02")
)

// tenantFlow is the flow of a tenant. In a queue with streams, scripts count a tenant's messages in
// flight by it.
func tenantFlow(tenant string) string { return "=" + escape.Replace(tenant) }

// streamFlow is the flow of a stream.
func streamFlow(index int) string { return "#" + strconv.Itoa(index) }

// readFlow returns the tenant or the stream that a flow is. The stream of a tenant is -1.
func readFlow(flow string) (tenant string, stream int) {
	if name, ok := strings.CutPrefix(flow, "="); ok {
		if strings.IndexByte(name, 2) >= 0 { // which few have
			name = unescape.Replace(name)
		}
		return name, -1
	}
	stream, err := strconv.Atoi(strings.TrimPrefix(flow, "#"))
	if err != nil {
		stream = -1
	}
	return "", stream
}

// streams are the flows of a queue: one for each tenant, or count streams of which each tenant has
// perTenant.
type streams struct{ count, perTenant int }

// setting is the text that the record keeps.
func (s streams) setting() string {
	if s.count == 0 {
		return ""
	}
	return strconv.Itoa(s.count) + " " + strconv.Itoa(s.perTenant)
}

func readStreams(setting string) (s streams) {
	count, perTenant, _ := strings.Cut(setting, " ")
	s.count, _ = strconv.Atoi(count) // "" is 0
	s.perTenant, _ = strconv.Atoi(perTenant)
	return s
}

// candidates returns the flows that a message of a tenant may go to: its own, or streams.
func (s streams) candidates(tenant string) []string {
	if s.count == 0 {
		return []string{tenantFlow(tenant)}
	}
	flows := make([]string, 0, s.perTenant)
	for _, stream := range shuffleshard.Get(s.count, s.perTenant, tenant) {
		flows = append(flows, streamFlow(stream))
	}
	return flows
}

// flows returns them as the script write takes them: '=TENANT' or '#1,#7=TENANT'.
func (s streams) flows(tenant string) string {
	if s.count == 0 {
		return tenantFlow(tenant)
	}
	return strings.Join(s.candidates(tenant), ",") + tenantFlow(tenant)
}
