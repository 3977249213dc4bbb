package reqid

// Clone returns lanes as a copy of the machine has them, for tests.
func (l *Lanes) Clone() *Lanes {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &Lanes{client: l.client, made: l.made}
	for _, free := range l.free {
		c.free = append(c.free, &lane{free.client, free.name, free.number})
	}
	return c
}
