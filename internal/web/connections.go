package web

import (
	"net"
	"net/http"
	"sync"
)

const (
	// maxConnections is more than probes, scrapers and people need.
	maxConnections = 100
	// sendBuffer is what the kernel is asked to hold of an answer that is not read. It takes
	// twice that. By itself it would take megabytes, and they count as the Pod's memory.
	sendBuffer = 64 << 10
)

// connections bounds how many are open. A new one always gets in: for one too many, the
// address that has the most loses the one on which nothing has happened for the longest
// time. So whoever holds hundreds does not keep out the kubelet, which comes alone.
type connections struct {
	limit int

	mu     sync.Mutex
	open   map[net.Conn]connection
	events uint64
}

type connection struct {
	host  string
	event uint64 // the latest: opened, a request, its answer
}

func newConnections(limit int) *connections {
	return &connections{limit: limit, open: map[net.Conn]connection{}}
}

// changed is called for each change of a connection, as http.Server.ConnState; for a new
// one before the next is accepted.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if victim := c.note(conn, state); victim != nil {
		victim.Close()
	}
	if tcp, ok := conn.(*net.TCPConn); ok && state == http.StateNew {
		_ = tcp.SetWriteBuffer(sendBuffer) // it has gone
	}
}

// note returns the connection to close, nil if none is.
func (c *connections) note(conn net.Conn, state http.ConnState) (victim net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events++
	known, ok := c.open[conn]
	switch {
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.open, conn)
		return nil
	case state == http.StateNew:
		host, _, _ := net.SplitHostPort(conn.RemoteAddr().String()) // "" is an address, too
		known = connection{host: host}
	case !ok: // it was closed here
		return nil
	}
	known.event = c.events
	c.open[conn] = known
	if len(c.open) <= c.limit {
		return nil
	}
	victim = c.victim()
	delete(c.open, victim)
	return victim
}

// victim is the connection to do without.
func (c *connections) victim() (victim net.Conn) {
	perHost := map[string]int{}
	for _, one := range c.open {
		perHost[one.host]++
	}
	for conn, one := range c.open {
		other := c.open[victim] // of event 0 at first
		if n, most := perHost[one.host], perHost[other.host]; victim == nil || n > most || n == most && one.event < other.event {
			victim = conn
		}
	}
	return victim
}
