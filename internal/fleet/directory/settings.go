package directory

import (
	"encoding/json"
	"time"
)

// Settings hold for a whole fleet. The zero value works.
type Settings struct {
	// ViewLife is for how long a client may write on a map after it began to ask
	// whether it is still the present one. An agent that replaces a master waits
	// that long and ReplyLimit first. Defaults to 1 second.
	ViewLife time.Duration `json:"-"`

	// ReplyLimit is the longest that a write may take from before it is sent until
	// its reply was processed, to be a success. Defaults to 500 milliseconds.
	ReplyLimit time.Duration `json:"-"`

	// PlacementLife is for how long a client may use what it found out about where
	// a tag is, and how long forgetting tags takes at least. Defaults to 10
	// seconds.
	PlacementLife time.Duration `json:"-"`

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
	DefaultViewLife      = time.Second
	DefaultReplyLimit    = 500 * time.Millisecond
	DefaultPlacementLife = 10 * time.Second
	DefaultMaxFill       = 80
	DefaultConfirmed     = 1
)

// Effective returns the settings with their defaults filled in.
func (s Settings) Effective() Settings {
	if s.ViewLife == 0 {
		s.ViewLife = DefaultViewLife
	}
	if s.ReplyLimit == 0 {
		s.ReplyLimit = DefaultReplyLimit
	}
	if s.PlacementLife == 0 {
		s.PlacementLife = DefaultPlacementLife
	}
	if s.MaxFill == 0 {
		s.MaxFill = DefaultMaxFill
	}
	if s.Confirmed == 0 {
		s.Confirmed = DefaultConfirmed
	}
	return s
}

// Grace is how long whoever changes the map waits until nobody can write on the
// one before: ViewLife and ReplyLimit, and a tenth for clocks that run apart.
func (s Settings) Grace() time.Duration {
	s = s.Effective()
	return (s.ViewLife + s.ReplyLimit) * 11 / 10
}

// settingsJSON is Settings with durations in milliseconds.
type settingsJSON struct {
	ViewLife      int64 `json:"view_life_ms,omitempty"`
	ReplyLimit    int64 `json:"reply_limit_ms,omitempty"`
	PlacementLife int64 `json:"placement_life_ms,omitempty"`
	MaxTags       int64 `json:"max_tags,omitempty"`
	MaxFill       int   `json:"max_fill,omitempty"`
	Confirmed     int   `json:"confirmed,omitempty"`
}

// MarshalJSON writes durations in milliseconds.
func (s Settings) MarshalJSON() ([]byte, error) {
	return json.Marshal(settingsJSON{
		s.ViewLife.Milliseconds(), s.ReplyLimit.Milliseconds(), s.PlacementLife.Milliseconds(), s.MaxTags, s.MaxFill, s.Confirmed,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Settings) UnmarshalJSON(text []byte) error {
	var j settingsJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*s = Settings{
		ViewLife:      time.Duration(j.ViewLife) * time.Millisecond,
		ReplyLimit:    time.Duration(j.ReplyLimit) * time.Millisecond,
		PlacementLife: time.Duration(j.PlacementLife) * time.Millisecond,
		MaxTags:       j.MaxTags,
		MaxFill:       j.MaxFill,
		Confirmed:     j.Confirmed,
	}
	return nil
}
