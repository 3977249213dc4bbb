package directory

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/names"
)

// Settings hold for a whole fleet. The zero value works. ViewTTL, ReplyTimeout, PlacementTTL and Confirmed are promises
// between processes that do not talk to each other, so they stay as they were when the fleet
// was made. The others change at any time.
type Settings struct {
	// ViewTTL is for how long a client may write after it began to ask for a confirmation
	// of its map. An agent that replaces a master waits for ViewTTL and ReplyTimeout.
	// Defaults to 1 second.
	ViewTTL time.Duration `json:"-"`

	// ReplyTimeout is how long a successful write may take, from before it is sent until
	// its reply is processed. Defaults to 500 milliseconds.
	ReplyTimeout time.Duration `json:"-"`

	// PlacementTTL is for how long a client may cache the place of a tag. Forgetting tags
	// takes at least as long. Defaults to 10 seconds.
	PlacementTTL time.Duration `json:"-"`

	// MaxTags is how many tags a partition takes before it forwards new ones. Defaults to
	// no limit.
	MaxTags int64 `json:"max_tags,omitempty"`

	// MaxFill is the share of its maxmemory, in percent, at which a partition begins to
	// forward new tags, so that its tags can grow. Without maxmemory it never does.
	// Defaults to 80.
	MaxFill int `json:"max_fill,omitempty"`

	// Confirmed is the least WaitReplicas of clients that wait for replicas. A failover waits
	// until so many replicas answer that one of them has every confirmed write: with one
	// replica that one, of two both. Defaults to 1.
	Confirmed int `json:"confirmed,omitempty"`

	// MaxAge is how far the newest data of a partition that answers may be behind the newest that
	// was there, for agents to go on with it: in seconds of beats, not by a clock. Older data waits
	// for a person. A fleet that has snapshots and neither append-only files nor replicas on other
	// machines sets the age that it can bear. Defaults to 3 seconds.
	MaxAge time.Duration `json:"-"`

	// ReplaceAfter is for how long a member has to be dead until agents replace it by a spare, one
	// at a time. At least 1 second. Defaults to never.
	ReplaceAfter time.Duration `json:"-"`

	// RestoredIck is the Ick to which agents add the tags of a partition that goes on with
	// older data, see package restored. Defaults to none.
	RestoredIck string `json:"restored_ick,omitempty"`
}

// DefaultViewTTL is the default of Settings.ViewTTL.
const DefaultViewTTL = time.Second

// Effective returns the settings with their defaults filled in.
func (s Settings) Effective() Settings {
	s.ViewTTL = cmp.Or(s.ViewTTL, DefaultViewTTL)
	s.ReplyTimeout = cmp.Or(s.ReplyTimeout, 500*time.Millisecond)
	s.PlacementTTL = cmp.Or(s.PlacementTTL, 10*time.Second)
	s.MaxFill = cmp.Or(s.MaxFill, 80)
	s.Confirmed = cmp.Or(s.Confirmed, 1)
	s.MaxAge = cmp.Or(s.MaxAge, 3*time.Second)
	return s
}

// maxIck is the longest name of an Ick.
const maxIck = 512

// Check returns the first error in settings.
func (s Settings) Check() error {
	e := s.Effective()
	switch {
	case e.ViewTTL < 20*time.Millisecond:
		return millrace.ErrBadArgument.Errorf("view-life %v is too short: it is at least 20ms", e.ViewTTL)
	case e.ReplyTimeout < 10*time.Millisecond:
		return millrace.ErrBadArgument.Errorf("reply-limit %v is too short: it is at least 10ms", e.ReplyTimeout)
	case e.PlacementTTL < e.ViewTTL:
		return millrace.ErrBadArgument.Errorf("placement-life %v is too short: it is at least view-life, %v", e.PlacementTTL, e.ViewTTL)
	case e.MaxTags < 0:
		return millrace.ErrBadArgument.Errorf("max-tags cannot be %d: it is at least 0, which is no limit", e.MaxTags)
	case e.MaxFill < 1 || e.MaxFill > 100:
		return millrace.ErrBadArgument.Errorf("max-fill cannot be %d: it is 1 to 100 percent", e.MaxFill)
	case e.Confirmed < 0:
		return millrace.ErrBadArgument.Errorf("confirmed cannot be %d: it is a number of replicas", e.Confirmed)
	case e.MaxAge < members.BeatInterval:
		return millrace.ErrBadArgument.Errorf("max-age %v is too short: it is at least %v, the interval of beats", e.MaxAge, members.BeatInterval)
	case e.ReplaceAfter != 0 && e.ReplaceAfter < time.Second:
		return millrace.ErrBadArgument.Errorf("replace-after %v is too short: it is at least 1s, or 0s for never", e.ReplaceAfter)
	case e.RestoredIck != "":
		return names.CheckText(millrace.ErrBadName, "name of an Ick", e.RestoredIck, maxIck)
	}
	return nil
}

// Grace is how long an agent waits after a change of the map until no client writes by
// the former map: ViewTTL and ReplyTimeout, and 10% for clocks that differ in speed.
func (m *Map) Grace() time.Duration {
	s := m.Settings.Effective()
	return (s.ViewTTL + s.ReplyTimeout) * 11 / 10
}

// settingsJSON is Settings with durations in milliseconds.
type settingsJSON struct {
	ViewTTL      int64 `json:"view_life_ms,omitempty"`
	ReplyTimeout int64 `json:"reply_limit_ms,omitempty"`
	PlacementTTL int64 `json:"placement_life_ms,omitempty"`
	MaxAge       int64 `json:"max_age_ms,omitempty"`
	ReplaceAfter int64 `json:"replace_after_ms,omitempty"`
	*plainSettings
}

type plainSettings Settings

// MarshalJSON writes durations in milliseconds.
func (s Settings) MarshalJSON() ([]byte, error) {
	plain := plainSettings(s)
	return json.Marshal(settingsJSON{
		s.ViewTTL.Milliseconds(), s.ReplyTimeout.Milliseconds(), s.PlacementTTL.Milliseconds(), s.MaxAge.Milliseconds(), s.ReplaceAfter.Milliseconds(), &plain,
	})
}

// UnmarshalJSON reads the form of MarshalJSON.
func (s *Settings) UnmarshalJSON(text []byte) error {
	*s = Settings{}
	j := settingsJSON{plainSettings: (*plainSettings)(s)}
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	s.ViewTTL = time.Duration(j.ViewTTL) * time.Millisecond
	s.ReplyTimeout = time.Duration(j.ReplyTimeout) * time.Millisecond
	s.PlacementTTL = time.Duration(j.PlacementTTL) * time.Millisecond
	s.MaxAge = time.Duration(j.MaxAge) * time.Millisecond
	s.ReplaceAfter = time.Duration(j.ReplaceAfter) * time.Millisecond
	return nil
}
