package failover

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// link is a stretch of network that can be cut: a TCP proxy on loopback. While it is
// cut, nothing passes, and nobody is told. What was sent meanwhile arrives when it is
// healed, even if the sender is gone by then, as TCP's retransmissions do.
type link struct {
	listener net.Listener
	server   string // host:port
	ctx      context.Context
	cancel   context.CancelFunc
	streams  sync.WaitGroup

	mu   sync.Mutex
	open chan struct{} // closed while packets pass
}

func newLink(server string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("making a proxy: %w", err)
	}
	l := &link{listener: listener, server: server, open: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	close(l.open)
	go l.serve()
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = make(chan struct{})
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.open)
}

// drained returns when all connections have ended, and what was under way on them has
// arrived.
func (l *link) drained(ctx context.Context) error {
	done := make(chan struct{})
	go func() { l.streams.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("draining the proxy: %w", ctx.Err())
	}
}

// close ends all connections.
func (l *link) close() {
	l.listener.Close()
	l.cancel()
	l.streams.Wait()
}

// pass waits while the link is cut, and tells whether it is there still.
func (l *link) pass() bool {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	select {
	case <-open:
		return true
	case <-l.ctx.Done():
		return false
	}
}

func (l *link) serve() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.streams.Go(func() { l.connect(conn) })
	}
}

func (l *link) connect(client net.Conn) {
	defer client.Close()
	if !l.pass() {
		return
	}
	server, err := (&net.Dialer{}).DialContext(l.ctx, "tcp", l.server)
	if err != nil {
		return // the client sees that the connection ends
	}
	defer server.Close()
	defer context.AfterFunc(l.ctx, func() { client.Close(); server.Close() })()
	var both sync.WaitGroup
	both.Go(func() { l.copy(server, client) })
	both.Go(func() { l.copy(client, server) })
	both.Wait()
}

// copy hands on what comes from src, and its end.
func (l *link) copy(dst, src net.Conn) {
	defer func() { _ = dst.(*net.TCPConn).CloseWrite() }() // it may be gone already
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		if n > 0 && l.pass() {
			if _, err := dst.Write(buffer[:n]); err != nil {
				_, _ = io.Copy(io.Discard, src) // until it ends too
				return
			}
		}
		if err != nil {
			l.pass()
			return
		}
	}
}
