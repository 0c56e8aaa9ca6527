package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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

// Audited is what a user has asked of the API server since the cluster's start, in
// the order of the answers.
func (c *Cluster) Audited(user string) ([]*Request, error) {
	file, err := os.Open(c.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer file.Close()
	var list []*Request
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // what is left is a line that is being written
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		r := &Request{}
		if err := json.Unmarshal(line, r); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w: %s", err, line)
		}
		if r.User.Username == user {
			list = append(list, r)
		}
	}
}
