package document

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/expiry"
)

// Fields are fields of a hash.
type Fields struct {
	Fields []Field `json:"fields" doc:"Sorted by the bytes of their names."`
}

// Field is a field of a hash.
type Field struct {
	Field Text  `json:"field" example:"\"token\""`
	Value Text  `json:"value" example:"\"3f9a\""`
	TTL   int64 `json:"ttl_ms" doc:"The time it has left in milliseconds; -1 if it stays for good." example:"1799912"`
}

// OfFields sorts fields and makes a document of them.
func OfFields(fields []expiry.Field) Fields {
	slices.SortFunc(fields, func(a, b expiry.Field) int { return cmp.Compare(a.Name, b.Name) })
	doc := Fields{make([]Field, len(fields))}
	for i, f := range fields {
		doc.Fields[i] = Field{Text(f.Name), Text(f.Value), Millis(f.TTL)}
	}
	return doc
}

// Millis is the time that a field has left, in milliseconds: -1 for one that stays
// for good, and -2 for one that is not there.
func Millis(ttl time.Duration) int64 {
	if ttl < 0 {
		return int64(ttl)
	}
	return ttl.Milliseconds()
}
