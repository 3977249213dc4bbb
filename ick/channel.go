package ick

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"hash/crc32"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// maxSize is how many Icks a channel has at most.
	maxSize = 1024

	// maxConsumer is the longest name of a consumer in bytes.
	maxConsumer = 64

	// refreshInterval is how long a producer uses a layout before it reads it again in the
	// background, within refreshTimeout. An old layout is safe.
	refreshInterval = time.Second
	refreshTimeout  = 250 * time.Millisecond
)

//go:embed channel/*.lua
var channelFolder embed.FS

// channelLibrary has the scripts that use a channel's own keys.
var channelLibrary = script.Load(channelFolder, "K:")

// Channel is a dirty list for several consumers: several Icks behind one name. A hash of the
// member selects the Ick, so the marks of a member fold as in a single Ick, and each Ick has one
// consumer at a time. It is safe for concurrent use.
//
// The Icks of a channel NAME are NAME/0, NAME/1 and so on. Their number is stored beside them,
// and [Channel.Resize] changes it.
type Channel struct {
	name string
	cfg  ChannelConfig
	run  script.Runner

	refreshing chan struct{} // held by a read in the background
	entry      registry.Entry

	mu     sync.Mutex
	icks   []*Ick // by index; as many as were used
	layout layout // as last read
	readAt time.Time
}

// ChannelConfig configures a [Channel]. The zero value works.
type ChannelConfig struct {
	// Ick configures each of the channel's Icks.
	Ick Config

	// Size is the number of Icks of a new channel, from 1 to 1024. A channel that exists
	// keeps its number. Defaults to 4.
	Size int

	// Shard returns the index of the Ick for a member, from 0 to size - 1. All producers
	// should agree: otherwise a member may be marked in two Icks and processed twice. Defaults
	// to the CRC-32 (IEEE) checksum of the member modulo size: in Ruby Zlib.crc32(member) %
	// size. testdata/shard.json has vectors.
	Shard func(member string, size int) int

	// Consumer names this process among the channel's consumers, 1 to 64 bytes, for example
	// by its host: a consumer that died and restarts under the same name gets its Icks at
	// once, instead of after five seconds. Two live consumers must not share a name: they
	// would do each other's work again. Defaults to a random text for each Consume.
	Consumer string
}

func shard(member string, size int) int {
	return int(crc32.ChecksumIEEE([]byte(member)) % uint32(size))
}

// layout is the stored state of a channel beside its Icks.
type layout struct {
	size  int   // Icks that producers use
	span  int   // Icks that are served, including those that producers no longer use
	epoch int64 // of the last resize; only grows
}

// NewChannel returns the channel of that name. It does no I/O: the first add, consumer or resize
// creates the channel. Errors: [millrace.ErrBadName], [millrace.ErrBadArgument].
func NewChannel(client rueidis.Client, name string, cfg ChannelConfig) (*Channel, error) {
	if err := checkChannelName(name); err != nil {
		return nil, err
	}
	cfg.Size = cmp.Or(cfg.Size, 4)
	if err := checkSize(cfg.Size); err != nil {
		return nil, err
	}
	if cfg.Shard == nil {
		cfg.Shard = shard
	}
	if len(cfg.Consumer) > maxConsumer {
		return nil, millrace.ErrBadArgument.Errorf("Consumer is %d bytes long, more than %d", len(cfg.Consumer), maxConsumer)
	}
	cfg.Ick.Logger = cmp.Or(cfg.Ick.Logger, slog.Default())
	cfg.Ick.Logger = cfg.Ick.Logger.With("channel", name)
	c := &Channel{
		name:       name,
		cfg:        cfg,
		run:        script.Runner{Client: client, Scripts: channelLibrary, Hooks: cfg.Ick.Hooks},
		refreshing: make(chan struct{}, 1),
	}
	c.entry.Enter(client, registry.Channel, name, cfg.Ick.Logger)
	_, err := c.ick(0) // checks the settings of all
	return c, err
}

func checkSize(size int) error {
	if size < 1 || size > maxSize {
		return millrace.ErrBadArgument.Errorf("a channel has 1 to %d Icks, not %d", maxSize, size)
	}
	return nil
}

// Name returns the channel's name.
func (c *Channel) Name() string { return c.name }

func (c *Channel) ick(index int) (*Ick, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.icks); i <= index; i++ {
		k, err := New(c.run.Client, c.name+"/"+strconv.Itoa(i), c.cfg.Ick)
		if err != nil {
			return nil, err
		}
		c.icks = append(c.icks, k)
	}
	return c.icks[index], nil
}

// Resize changes the number of Icks, from 1 to 1024, and creates a channel that does not exist.
// It moves no marks: producers learn the number within about a second, and consumers serve Icks
// that are no longer used until those are empty. A waiting member whose Ick changes may be marked
// again in the other one, and is then processed twice.
//
// Errors: [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion],
// [millrace.ErrFull].
func (c *Channel) Resize(ctx context.Context, size int) error {
	if err := checkSize(size); err != nil {
		return err
	}
	r, err := c.call(ctx, "resize", strconv.Itoa(size))
	if err != nil {
		return err
	}
	c.entry.Touch()
	c.learn(readLayout(r))
	return r.Err()
}

// Delete removes the channel with all its Icks and marks, and returns the number of lost marks,
// including parked ones. Stop producers and consumers first, or they create it again. After an
// error another Delete continues. It removes no value of another program that has the name of one
// of the Icks: that is [millrace.ErrBroken].
func (c *Channel) Delete(ctx context.Context) (lost int, err error) {
	select {
	case c.refreshing <- struct{}{}: // a refresh would create the channel again
		defer func() { <-c.refreshing }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	s, err := c.Stats(ctx)
	if errors.Is(err, millrace.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for index := range s.peak {
		k, err := c.ick(index)
		if err != nil {
			return lost, err
		}
		if _, err := k.remove(ctx, "channel"); err != nil {
			return lost, err
		}
	}
	if _, err = c.call(ctx, "disband"); err == nil {
		c.entry.Leave(ctx)
	}
	c.mu.Lock()
	c.readAt, c.layout = time.Time{}, layout{}
	c.mu.Unlock()
	return s.Total + s.Parked, err
}

// load returns the known layout, and starts a refresh if it is old.
func (c *Channel) load(ctx context.Context) (layout, error) {
	c.mu.Lock()
	known, due := c.layout, time.Since(c.readAt) >= refreshInterval
	c.mu.Unlock()
	if known.size == 0 {
		return c.reload(ctx)
	}
	if due {
		c.refresh(context.WithoutCancel(ctx))
	}
	return known, nil
}

// refresh reads the layout in the background, unless a refresh is in flight. So adds to other
// servers continue while the server of the layout is silent.
func (c *Channel) refresh(ctx context.Context) {
	select {
	case c.refreshing <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-c.refreshing }()
		within, cancel := context.WithTimeout(ctx, refreshTimeout)
		defer cancel()
		if _, err := c.reload(within); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.readAt = time.Now() // delays the next refresh
		}
	}()
}

// reload reads the layout, and creates a channel that does not exist.
func (c *Channel) reload(ctx context.Context) (layout, error) {
	r, err := c.call(ctx, "channel", c.known().args()...)
	if err != nil {
		return layout{}, err
	}
	c.entry.Touch()
	fresh := readLayout(r)
	if r.Err() != nil {
		return layout{}, r.Err()
	}
	return c.learn(fresh), nil
}

// known returns the layout that the server stores if its own is older.
func (c *Channel) known() layout {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.layout.size == 0 {
		return layout{size: c.cfg.Size, span: c.cfg.Size}
	}
	return c.layout
}

func (r layout) args() []string {
	return []string{strconv.Itoa(r.size), strconv.Itoa(r.span), strconv.FormatInt(r.epoch, 10)}
}

// learn stores a layout that was read, and returns the newest one.
func (c *Channel) learn(seen layout) layout {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen.size > 0 && seen.epoch >= c.layout.epoch {
		c.layout, c.readAt = seen, time.Now()
	}
	return c.layout
}

// readLayout reads the layout, with which every reply of a channel's script begins.
func readLayout(r *script.Reply) layout {
	return layout{size: int(r.Int()), span: int(r.Int()), epoch: r.Int()}
}

func (c *Channel) call(ctx context.Context, name string, args ...string) (*script.Reply, error) {
	return c.run.Run(ctx, name, channelKey(c.name), args...)
}
