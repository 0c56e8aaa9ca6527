package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Request is what the audit log says of one.
type Request struct {
	Verb string
	User struct {
		Username string
		Extra    map[string][]string
	}
	Ref      *struct{ Resource, Subresource, Namespace, Name string } `json:"objectRef"`
	Code     struct{ Code int }                                       `json:"responseStatus"`
	Received time.Time                                                `json:"requestReceivedTimestamp"`
	Answered time.Time                                                `json:"stageTimestamp"`
	Body     json.RawMessage                                          `json:"requestObject"` // of writes to Deployments and Leases
}

// Writes tells whether the request is more than a read.
func (r *Request) Writes() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// Accepted tells whether the API server did what was asked.
func (r *Request) Accepted() bool { return r.Code.Code >= 200 && r.Code.Code < 300 }

// What is the resource with its subresource.
func (r *Request) What() string {
	switch {
	case r.Ref == nil:
		return ""
	case r.Ref.Subresource != "":
		return r.Ref.Resource + "/" + r.Ref.Subresource
	}
	return r.Ref.Resource
}

// audited is what was read of the audit log so far.
type audited struct {
	mu       sync.Mutex
	offset   int64
	requests []*Request
}

// accounts is how the names of ServiceAccounts begin.
const accounts = "system:serviceaccount:"

// Audited is what a ServiceAccount has asked of the API server since the cluster's start,
// in the order of the answers; without a user, what all of them have.
func (c *Cluster) Audited(user string) ([]*Request, error) {
	a := &c.audited
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.read(c.AuditLog()); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	var list []*Request
	for _, r := range a.requests {
		if user == "" || r.User.Username == user {
			list = append(list, r)
		}
	}
	return list, nil
}

// read goes on where it stopped the last time: tests look again and again.
func (a *audited) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // what is left is a line that is being written
			return nil
		}
		if err != nil {
			return err
		}
		if bytes.Contains(line, []byte(accounts)) { // most that have it are of one
			r := &Request{}
			if err := json.Unmarshal(line, r); err != nil {
				return fmt.Errorf("%w: %s", err, line)
			}
			if strings.HasPrefix(r.User.Username, accounts) {
				a.requests = append(a.requests, r)
			}
		}
		a.offset += int64(len(line))
	}
}
