package directory

import (
	"encoding/json"
	"time"
)

// Settings hold for a whole fleet. The zero value works.
type Settings struct {
	// ViewTTL is for how long a client may write on a map after it began to ask
	// whether it is still the present one. An agent that replaces a master waits
	// that long and ReplyTimeout first. Defaults to 1 second.
	ViewTTL time.Duration `json:"-"`

	// ReplyTimeout is the longest that a write may take from before it is sent until
	// its reply was processed, to be a success. Defaults to 500 milliseconds.
	ReplyTimeout time.Duration `json:"-"`

	// PlacementTTL is for how long a client may use what it found out about where
	// a tag is, and how long forgetting tags takes at least. Defaults to 10
	// seconds.
	PlacementTTL time.Duration `json:"-"`

	// MaxTags is how many tags a partition takes before it sends new ones on.
	// Defaults to no limit.
	MaxTags int64 `json:"max_tags,omitempty"`

	// Confirmed is how many replicas writers may wait for, with their WaitReplicas. A
	// failover wants to see so many replicas that one of them has every write that
	// was confirmed: with one replica that one, of two both. Below 0 it goes on with
	// whoever there is. Defaults to 1.
	Confirmed int `json:"confirmed,omitempty"`

	// MaxFill is the part of its maxmemory, in percent, that a partition fills
	// before it sends new tags on; the rest is for those that it has, to grow. A
	// member without maxmemory is never too full. Defaults to 80.
	MaxFill int `json:"max_fill,omitempty"`
}

// Defaults of Settings.
const (
	DefaultViewTTL      = time.Second
	DefaultReplyTimeout = 500 * time.Millisecond
	DefaultPlacementTTL = 10 * time.Second
	DefaultMaxFill      = 80
	DefaultConfirmed    = 1
)

// Effective returns the settings with their defaults filled in.
func (s Settings) Effective() Settings {
	if s.ViewTTL == 0 {
		s.ViewTTL = DefaultViewTTL
	}
	if s.ReplyTimeout == 0 {
		s.ReplyTimeout = DefaultReplyTimeout
	}
	if s.PlacementTTL == 0 {
		s.PlacementTTL = DefaultPlacementTTL
	}
	if s.MaxFill == 0 {
		s.MaxFill = DefaultMaxFill
	}
	if s.Confirmed == 0 {
		s.Confirmed = DefaultConfirmed
	}
	return s
}

// Grace is how long an agent that changes the map waits until no client can write on the
// one before: ViewTTL and ReplyTimeout, and a tenth for clocks that run apart.
func (s Settings) Grace() time.Duration {
	s = s.Effective()
	return (s.ViewTTL + s.ReplyTimeout) * 11 / 10
}

// settingsJSON is Settings with durations in milliseconds.
type settingsJSON struct {
	ViewTTL      int64 `json:"view_life_ms,omitempty"`
	ReplyTimeout int64 `json:"reply_limit_ms,omitempty"`
	PlacementTTL int64 `json:"placement_life_ms,omitempty"`
	MaxTags      int64 `json:"max_tags,omitempty"`
	MaxFill      int   `json:"max_fill,omitempty"`
	Confirmed    int   `json:"confirmed,omitempty"`
}

// MarshalJSON writes durations in milliseconds.
func (s Settings) MarshalJSON() ([]byte, error) {
	return json.Marshal(settingsJSON{
		s.ViewTTL.Milliseconds(), s.ReplyTimeout.Milliseconds(), s.PlacementTTL.Milliseconds(), s.MaxTags, s.MaxFill, s.Confirmed,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Settings) UnmarshalJSON(text []byte) error {
	var j settingsJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*s = Settings{
		ViewTTL:      time.Duration(j.ViewTTL) * time.Millisecond,
		ReplyTimeout: time.Duration(j.ReplyTimeout) * time.Millisecond,
		PlacementTTL: time.Duration(j.PlacementTTL) * time.Millisecond,
		MaxTags:      j.MaxTags,
		MaxFill:      j.MaxFill,
		Confirmed:    j.Confirmed,
	}
	return nil
}
