package expiry

import (
	_ "embed"
	"slices"

	"github.com/millrace/millrace/internal/reqid"
	script "github.com/millrace/millrace/internal/oldscript"
)

//go:embed hash_shard.lua
var hashShardFragment string

//go:embed hash_one.lua
var hashOneFragment string

//go:embed hash_open.lua
var hashOpenFragment string

//go:embed hash_set.lua
var hashSetSource string

//go:embed hash_incr.lua
var hashIncrSource string

//go:embed hash_delete.lua
var hashDeleteSource string

//go:embed hash_drop.lua
var hashDropSource string

//go:embed hash_expire.lua
var hashExpireSource string

//go:embed hash_persist.lua
var hashPersistSource string

//go:embed hash_get.lua
var hashGetSource string

//go:embed hash_mget.lua
var hashMgetSource string

//go:embed hash_ttl.lua
var hashTTLSource string

//go:embed hash_len.lua
var hashLenSource string

//go:embed hash_all.lua
var hashAllSource string

//go:embed hash_scan.lua
var hashScanSource string

//go:embed hash_reap.lua
var hashReapSource string

//go:embed hash_repair.lua
var hashRepairSource string

//go:embed hash_stats.lua
var hashStatsSource string

// hashScripts are all the scripts that hashes run.
type hashScripts struct {
	claim                                    *script.Script
	set, incr, delete, drop, expire, persist *script.Script
	get, mget, ttl, length, all, scan        *script.Script
	reap, repair, stats                      *script.Script
}

var standardHashScripts = assembleHashes(script.New)

// assembleHashes makes the scripts, each by a call with its name, its source and
// the fragments in front of it.
func assembleHashes(build func(name, source string, fragments ...string) *script.Script) *hashScripts {
	shard := []string{hashShardFragment}
	one := slices.Concat(shard, []string{hashOneFragment})
	write := func(name, source string) *script.Script {
		return build(name, source, slices.Concat(one, []string{reqid.Fragment})...).Numbered()
	}
	read := func(name, source string) *script.Script {
		return build(name, source, hashOpenFragment)
	}
	return &hashScripts{
		claim:   build("expiry.claim", claimSource),
		set:     write("expiry.hash_set", hashSetSource),
		incr:    write("expiry.hash_incr", hashIncrSource),
		delete:  write("expiry.hash_delete", hashDeleteSource),
		drop:    write("expiry.hash_drop", hashDropSource),
		expire:  write("expiry.hash_expire", hashExpireSource),
		persist: write("expiry.hash_persist", hashPersistSource),
		get:     build("expiry.hash_get", hashGetSource),
		mget:    read("expiry.hash_mget", hashMgetSource),
		ttl:     read("expiry.hash_ttl", hashTTLSource),
		length:  read("expiry.hash_len", hashLenSource),
		all:     read("expiry.hash_all", hashAllSource),
		scan:    read("expiry.hash_scan", hashScanSource),
		reap:    build("expiry.hash_reap", hashReapSource, shard...),
		repair:  build("expiry.hash_repair", hashRepairSource, one...),
		stats:   build("expiry.hash_stats", hashStatsSource, shard...),
	}
}
