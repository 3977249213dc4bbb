package failover_test

import (
	"errors"
	"time"
)

// election decides which server of etcd leads. Stored data is on a majority, and a server that
// answers has asked a majority: maps are never lost, and no replaced map is
// confirmed. While no server can lead, none answers.
type election struct {
	primary *keeper
	lost    time.Time     // since when it does not reach a majority; zero if it does
	timeout time.Duration // and after how long another one is elected
}

var errNoLeader = errors.New("etcd has no leader")

// decides returns an error unless a server can answer: with etcd it must reach the one
// that leads, and that one a majority.
func (d *simDirectory) decides(k *keeper) error {
	primary := d.etcd.primary
	if d.w.store == inRedis || d.canLead(primary) && !d.w.isCut(&k.host, &primary.host) {
		return nil
	}
	return errNoLeader
}

// canLead reports whether a server reaches a majority.
func (d *simDirectory) canLead(k *keeper) bool {
	return 2*len(d.reached(k)) > len(d.servers)
}

// reached returns the servers that one reaches, itself included, unless it is down.
func (d *simDirectory) reached(k *keeper) (reached []*keeper) {
	if k.down || k.paused {
		return nil
	}
	for _, o := range d.servers {
		if o == k || !o.down && !o.paused && !d.w.isCut(&k.host, &o.host) {
			reached = append(reached, o)
		}
	}
	return reached
}

// replicate tells the servers that are reached the present map.
func (d *simDirectory) replicate() {
	for _, k := range d.reached(d.etcd.primary) {
		k.has = d.m
	}
}

// step advances etcd: followers catch up, or another one is elected. That one must have all
// stored data. Leases go on from the beginning.
func (d *simDirectory) step() {
	e := &d.etcd
	switch {
	case d.w.store != inEtcd:
	case d.canLead(e.primary):
		e.lost = time.Time{}
		d.replicate()
	case e.lost.IsZero():
		host := &e.primary.host
		e.lost, e.timeout = time.Now(), 300*time.Millisecond+time.Duration(d.w.draw(host, host, int64(300*time.Millisecond)))
	case time.Since(e.lost) > e.timeout:
		for _, k := range d.servers {
			if d.canLead(k) && k.has == d.m {
				e.primary, e.lost = k, time.Time{}
				for name, h := range d.holds {
					h.until = time.Now().Add(h.life)
					d.holds[name] = h
				}
				d.w.say("%s leads etcd", k.name)
				return
			}
		}
	}
}
