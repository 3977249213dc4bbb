package expiry

import (
	_ "embed"
	"slices"

	"github.com/millrace/millrace/internal/reqid"
	script "github.com/millrace/millrace/internal/oldscript"
)

//go:embed claim.lua
var claimSource string

//go:embed key_open.lua
var keyOpenFragment string

//go:embed key_write.lua
var keyWriteFragment string

//go:embed key_set.lua
var keySetSource string

//go:embed key_get.lua
var keyGetSource string

//go:embed key_ttl.lua
var keyTTLSource string

//go:embed key_expire.lua
var keyExpireSource string

//go:embed key_delete.lua
var keyDeleteSource string

//go:embed key_reap.lua
var keyReapSource string

//go:embed key_stats.lua
var keyStatsSource string

//go:embed key_mend.lua
var keyMendSource string

//go:embed key_audit.lua
var keyAuditSource string

// keyScripts are all the scripts that deterministic values run.
type keyScripts struct {
	claim, set, get, ttl, expire, delete, reap, stats, mend, audit *script.Script
}

var standardKeyScripts = assembleKeys(script.New)

// assembleKeys makes the scripts, each by a call with its name, its source and
// the fragments in front of it.
func assembleKeys(build func(name, source string, fragments ...string) *script.Script) *keyScripts {
	writing := []string{keyOpenFragment, keyWriteFragment}
	answering := slices.Concat(writing, []string{reqid.Fragment})
	return &keyScripts{
		claim:  build("expiry.claim", claimSource),
		set:    build("expiry.key_set", keySetSource, answering...).Numbered(),
		get:    build("expiry.key_get", keyGetSource, keyOpenFragment),
		ttl:    build("expiry.key_ttl", keyTTLSource, keyOpenFragment),
		expire: build("expiry.key_expire", keyExpireSource, answering...).Numbered(),
		delete: build("expiry.key_delete", keyDeleteSource, answering...).Numbered(),
		reap:   build("expiry.key_reap", keyReapSource, writing...),
		stats:  build("expiry.key_stats", keyStatsSource, keyOpenFragment),
		mend:   build("expiry.key_mend", keyMendSource, keyOpenFragment),
		audit:  build("expiry.key_audit", keyAuditSource, keyOpenFragment),
	}
}
