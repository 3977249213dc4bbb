package connect

import (
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/redis/address"
)

// Options returns the options for several servers, whose URLs are separated by commas, for
// callers that connect later; and the URLs without passwords. Errors are [dial.ErrURL].
func Options(rawURLs string) (options []rueidis.ClientOption, shown []string, err error) {
	for _, url := range split(rawURLs) {
		opt, err := dial.Options(url)
		if err != nil {
			return nil, nil, err
		}
		options, shown = append(options, opt), append(shown, address.Redacted(url))
	}
	return options, shown, nil
}

// split cuts a list where another URL begins: a password may hold commas.
func split(rawURLs string) (list []string) {
	for i, part := range strings.Split(rawURLs, ",") {
		if i > 0 && !strings.Contains(part, "://") && !strings.HasPrefix(part, "unix:") {
			list[len(list)-1] += "," + part
			continue
		}
		list = append(list, part)
	}
	return list
}
