package web

import (
	"net"
	"net/http"
	"sync"
)

const (
	// maxConnections is more than probes, scrapers and people need.
	maxConnections = 50
	// sendBuffer is what the kernel is asked to hold of an answer that is not read. It takes
	// twice that. By itself it would take megabytes, and they count as the Pod's memory.
	sendBuffer = 64 << 10
)

// connections bounds how many are open. A new one always gets in: for one too many, the
// address that has the most loses its oldest. So whoever holds hundreds does not keep out
// the kubelet, which comes alone.
type connections struct {
	limit int

	mu    sync.Mutex
	open  map[net.Conn]connection
	count uint64 // so far
}

type connection struct {
	host   string
	number uint64
}

func newConnections(limit int) *connections {
	return &connections{limit: limit, open: map[net.Conn]connection{}}
}

// changed is called for each change of a connection, as http.Server.ConnState; for a new
// one before the next is accepted.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(sendBuffer) // it has gone
		}
		if victim := c.add(conn); victim != nil {
			victim.Close()
		}
	case http.StateClosed, http.StateHijacked:
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, conn)
	}
}

// add returns the connection to close for it, nil if there is room.
func (c *connections) add(conn net.Conn) (victim net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String()) // "" is an address, too
	c.count++
	c.open[conn] = connection{host, c.count}
	if len(c.open) <= c.limit {
		return nil
	}
	perHost := map[string]int{}
	for _, one := range c.open {
		perHost[one.host]++
	}
	for conn, one := range c.open {
		other := c.open[victim]
		if n, most := perHost[one.host], perHost[other.host]; victim == nil || n > most || n == most && one.number < other.number {
			victim = conn
		}
	}
	delete(c.open, victim)
	return victim
}
