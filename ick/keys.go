package ick

import (
	"strings"

	"github.com/millrace/millrace/internal/names"
)

const maxName = 512

// Keys of an Ick. The version key is the Ick's name, as in the gem. All others contain it, and all
// are in one slot of a Redis Cluster.
const (
	keyPset   = "pset"   // sorted set, the gem's: marks by the time of the first
	keyCset   = "cset"   // sorted set, the gem's: reserved marks
	keyFolds  = "folds"  // hash: reserved member -> number of the reservation that last folded it
	keyMeta   = "meta"   // hash: the newest reservation's number, and counters
	keyWake   = "wake"   // list: a token that wakes a waiting consumer
	keyParked = "parked" // sorted set: parked member -> its next try, in Unix milliseconds
	keyFails  = "fails"  // hash: failing member -> attempts, score, when, why
	keyLanes  = "lanes:" // two hashes: results of recent calls, see package reqid
	keyKeyed  = "keyed:" // two hashes: the same for requests with an idempotency key
)

func key(name, part string) string { return name + "/ick/{" + name + "}/" + part }

// parts are all keys but the version key.
var parts = []string{
	keyPset, keyCset, keyFolds, keyMeta, keyWake, keyParked, keyFails, keyLanes + "0", keyLanes + "1", keyKeyed + "0", keyKeyed + "1",
}

// keys returns all keys of the Ick of that name, the version key first.
func keys(name string) []string {
	all := []string{name}
	for _, part := range parts {
		all = append(all, key(name, part))
	}
	return all
}

// retired begins the version of an Ick that its channel retired; the epoch follows.
const retired = "ick.retired:"

// maxChannelName is the longest name of a channel in bytes: its Icks have longer names.
const maxChannelName = maxName - len("/1023")

// channelKey is the hash of a channel: version, size, span, peak, epoch.
func channelKey(name string) string { return channelPrefix + name + "}" }

const channelPrefix = "mr:channel:{"

func checkName(name string) error {
	if err := names.CheckText(errName, "name of an Ick", name, maxName); err != nil {
		return err
	}
	if tag(name) != tag(key(name, keyPset)) {
		return errName.Errorf("the braces in %q would put the keys of the Ick into different cluster slots", name)
	}
	return nil
}

func checkChannelName(name string) error {
	return names.Check(errName, "name of a channel", name, maxChannelName)
}

// tag returns the part of a key that Redis Cluster hashes: the text between the first '{' and the
// next '}' if that is not empty, otherwise the whole key.
func tag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if inner, _, ok := strings.Cut(after, "}"); ok && inner != "" {
			return inner
		}
	}
	return key
}
