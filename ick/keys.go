package ick

import (
	"strings"

	"github.com/millrace/millrace/internal/names"
)

// maxName is the longest name of an Ick in bytes.
const maxName = 512

// Keys of an Ick. The version key is the Ick's name itself, as in the gem; all
// others are made from it, and all lie in one Redis Cluster slot.
const (
	keyPset   = "pset"   // sorted set, the gem's: marks by the time of the first
	keyCset   = "cset"   // sorted set, the gem's: reserved marks
	keyFolds  = "folds"  // hash: reserved member -> number of the reservation that last folded it
	keyMeta   = "meta"   // hash: the newest reservation's number, and counters
	keyWake   = "wake"   // list: a token for a consumer that waits
	keyParked = "parked" // sorted set: parked member -> when it comes back, in milliseconds
	keyFails  = "fails"  // hash: failing member -> attempts, score, when, why
	keyLanes  = "lanes:" // two hashes: answers to calls that may be repeated, see package reqid
	keyKeyed  = "keyed:" // two hashes: the same for requests with a key of their own
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

// retired begins the version of an Ick that its channel retired; the channel's
// epoch follows.
const retired = "ick.retired:"

// maxChannelName is the longest name of a channel in bytes, so that those of its
// Icks are short enough.
const maxChannelName = maxName - len("/1023")

// channelKey is the hash that a channel is beside its Icks: version, size, span,
// peak, epoch.
func channelKey(name string) string { return channelPrefix + name + "}" }

const channelPrefix = "mr:channel:{"

// checkName refuses names that Redis should not be asked about.
func checkName(name string) error {
	if err := names.CheckText(errName, "name of an Ick", name, maxName); err != nil {
		return err
	}
	if tag(name) != tag(key(name, keyPset)) {
		return errName.Errorf("the braces in %q would put an Ick's keys into different cluster slots", name)
	}
	return nil
}

// checkChannelName refuses names that Redis should not be asked about.
func checkChannelName(name string) error {
	return names.Check(errName, "name of a channel", name, maxChannelName)
}

// tag returns the part of a key that Redis Cluster hashes: what is between the
// first '{' and the next '}' if that is not empty, else the whole key.
func tag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if inner, _, ok := strings.Cut(after, "}"); ok && inner != "" {
			return inner
		}
	}
	return key
}
