package fairqueue

import (
	"strconv"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/shuffleshard"
)

// maxName is the longest name of a queue in bytes.
const maxName = 512

// Every key of a queue is made from its name, in braces, so that all lie in one
// Redis Cluster slot.
const keyPrefix = "mr:queue:{"

// baseKey is the hash that is the queue's record: version, virtual time, settings and
// counters.
func baseKey(name string) string { return keyPrefix + name + "}" }

// CheckName returns the [millrace.ErrBadName] with which [New] refuses that name, and nil
// for one that can be a queue's. It is for programs that look at what they were given
// before they connect.
func CheckName(name string) error {
	return names.Check(millrace.ErrBadName, "name of a queue", name, maxName)
}

// Scripts tell flows and messages apart by the byte 1, so names must not have it. The byte
// 2 begins what stands for either.
var (
	escape   = strings.NewReplacer("\x01", "\x02a", "\x02", "\x02b")
	unescape = strings.NewReplacer("\x02a", "\x01", "\x02b", "\x02")
)

// tenantFlow is the flow of a tenant, and in a queue with streams the name by which scripts
// count what it has in flight.
func tenantFlow(tenant string) string { return "=" + escape.Replace(tenant) }

// streamFlow is the flow of a stream.
func streamFlow(index int) string { return "#" + strconv.Itoa(index) }

// readFlow returns the tenant or the stream that a flow is; the stream is -1 for a tenant.
func readFlow(flow string) (tenant string, stream int) {
	if name, ok := strings.CutPrefix(flow, "="); ok {
		return unescape.Replace(name), -1
	}
	stream, err := strconv.Atoi(strings.TrimPrefix(flow, "#"))
	if err != nil {
		stream = -1
	}
	return "", stream
}

// streams is what flows are: tenants, or streams of which each tenant has some.
type streams struct{ count, perTenant int }

// setting is the text that is stored.
func (s streams) setting() string {
	if s.count == 0 {
		return ""
	}
	return strconv.Itoa(s.count) + " " + strconv.Itoa(s.perTenant)
}

// readStreams reads the text that is stored.
func readStreams(setting string) (s streams) {
	count, perTenant, _ := strings.Cut(setting, " ")
	s.count, _ = strconv.Atoi(count) // "" is 0
	s.perTenant, _ = strconv.Atoi(perTenant)
	return s
}

// flows returns the flows that a message of a tenant may have, as the script write takes
// them.
func (s streams) flows(tenant string) string {
	name := tenantFlow(tenant)
	if s.count == 0 {
		return name
	}
	var list strings.Builder
	for i, stream := range shuffleshard.Get(s.count, s.perTenant, tenant) {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(streamFlow(stream))
	}
	list.WriteString(name)
	return list.String()
}
