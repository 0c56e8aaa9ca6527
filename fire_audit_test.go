//go:build fire

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// allowedRequests is all that the controller may send, whether or not the API server
// would let it do more.
var allowedRequests = map[string]bool{
	"get deployments": true, "list deployments": true, "watch deployments": true,
	"update deployments/scale": true, "patch deployments/status": true,
	"list horizontalpodautoscalers": true, "watch horizontalpodautoscalers": true,
	"create events": true, "patch events": true,
	"get leases": true, "create leases": true, "update leases": true,
	"create selfsubjectreviews": true,
}

// leaseTerm is a time for which a process has been seen to hold the Lease.
type leaseTerm struct {
	holder     string
	start, end time.Time
}

// auditor reads the API server's audit log as it grows, and holds it against what
// must never happen.
type auditor struct {
	path     string
	user     string // the controller's
	offset   int64
	counts   map[types.UID]map[int32]bool // that a schedule of a Deployment has asked for
	nights   map[types.UID]map[int32]bool // the same, for the night alone
	last     map[types.UID]int32          // count that the controller set last
	managed  map[string]bool              // namespace/name that opted in at some time
	identity map[string]string            // sender → its identity in the Lease
	terms    []leaseTerm
	// A line is written when its request ends, so they are put in the
	// order in which the requests came.
	leases, writes []*auditEvent

	scales, conditions, events, refused, violated int
	violations                                    []string // not yet reported
}

// auditEvent is what we read of a line of the audit log.
type auditEvent struct {
	Stage, Verb    string
	UserAgent      string
	User           struct{ Username string }
	ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus struct{ Code int }
	RequestObject  json.RawMessage
	Received       time.Time `json:"requestReceivedTimestamp"`

	// From the user agent, which the proxy stamps.
	sender string
	sent   time.Time
}

func (e *auditEvent) what() string {
	if e.ObjectRef.Subresource != "" {
		return e.Verb + " " + e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
	}
	return e.Verb + " " + e.ObjectRef.Resource
}

func (a *auditor) violate(e *auditEvent, format string, args ...any) {
	a.violated++
	a.violations = append(a.violations, fmt.Sprintf("%s %s %s/%s by %s: ", e.sent.Format("15:04:05.000000"), e.what(), e.ObjectRef.Namespace, e.ObjectRef.Name, e.sender)+fmt.Sprintf(format, args...))
}

// read takes in the lines that have come since the last call.
func (a *auditor) read() error {
	file, err := os.Open(a.path)
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
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		a.offset += int64(len(line))
		if !bytes.Contains(line, []byte(a.user)) {
			continue
		}
		// An API server that was killed leaves half a line, and the next one goes on in it.
		if at := bytes.LastIndex(line, []byte(`{"kind":"Event"`)); at > 0 {
			line = line[at:]
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%w: %q", err, line)
		}
		if e.User.Username != a.user || e.Stage != "ResponseComplete" {
			continue
		}
		sender, sent, _ := strings.Cut(e.UserAgent, "@")
		nanoseconds, err := strconv.ParseInt(sent, 10, 64)
		if err != nil {
			return fmt.Errorf("not stamped: %w: %q", err, line)
		}
		e.sender, e.sent = sender, time.Unix(0, nanoseconds)
		a.check(&e)
	}
}

func (a *auditor) check(e *auditEvent) {
	what := e.what()
	if !allowedRequests[what] {
		a.violate(e, "not a request that the controller may send")
		return
	}
	accepted := e.ResponseStatus.Code/100 == 2 // a client that went away got no answer
	key := e.ObjectRef.Namespace + "/" + e.ObjectRef.Name
	switch what {
	case "update leases", "create leases":
		// Of one that got no good answer nobody knows whether it was carried out.
		if accepted || e.ResponseStatus.Code == 0 || e.ResponseStatus.Code >= 500 {
			a.leases = append(a.leases, e)
		}
	case "update deployments/scale", "patch deployments/status":
		if !a.managed[key] {
			a.violate(e, "it never opted in")
		}
		if !accepted {
			a.refused++
			return
		}
		a.writes = append(a.writes, e)
		if what == "patch deployments/status" {
			a.conditions++
			return
		}
		a.scales++
		var scale struct {
			Metadata struct{ UID types.UID }
			Spec     struct{ Replicas int32 }
		}
		if err := json.Unmarshal(e.RequestObject, &scale); err != nil {
			a.violate(e, "no scale: %v", err)
		} else if !a.counts[scale.Metadata.UID][scale.Spec.Replicas] {
			a.violate(e, "no schedule of %s ever asked for %d replicas", scale.Metadata.UID, scale.Spec.Replicas)
		}
		a.last[scale.Metadata.UID] = scale.Spec.Replicas
	case "create events", "patch events":
		a.events++
	}
}

// leader is the sender of the last write of the Lease, "" if there was none.
func (a *auditor) leader() string {
	if len(a.leases) > 0 {
		return a.leases[len(a.leases)-1].sender
	}
	for sender, identity := range a.identity {
		if identity == a.terms[len(a.terms)-1].holder {
			return sender
		}
	}
	return ""
}

// settle checks who held the Lease when the writes came that were read. It wants a
// moment in which none is on its way.
func (a *auditor) settle() {
	slices.SortFunc(a.leases, func(a, b *auditEvent) int { return a.Received.Compare(b.Received) })
	for _, e := range a.leases {
		a.lease(e)
	}
	for _, e := range a.writes {
		identity := a.identity[e.sender]
		if !slices.ContainsFunc(a.terms, func(t leaseTerm) bool {
			return t.holder == identity && !e.sent.Before(t.start) && !e.sent.After(t.end)
		}) {
			a.violate(e, "it does not hold the Lease; its terms: %v", a.termsOf(identity))
		}
	}
	a.leases, a.writes = nil, nil
}

func (a *auditor) termsOf(identity string) []leaseTerm {
	return slices.DeleteFunc(slices.Clone(a.terms), func(t leaseTerm) bool { return t.holder != identity })
}

// lease takes in an accepted write of the Lease.
func (a *auditor) lease(e *auditEvent) {
	var lease struct {
		Spec struct {
			HolderIdentity       string
			LeaseDurationSeconds int
		}
	}
	accepted := e.ResponseStatus.Code/100 == 2
	if err := json.Unmarshal(e.RequestObject, &lease); err != nil {
		if accepted {
			a.violate(e, "no Lease: %v", err)
		}
		return
	}
	last := &leaseTerm{}
	if len(a.terms) > 0 {
		last = &a.terms[len(a.terms)-1]
	}
	// The holder counts from before it sent this, so its own end is no later.
	end := e.sent.Add(time.Duration(lease.Spec.LeaseDurationSeconds) * time.Second)
	switch holder := lease.Spec.HolderIdentity; {
	case holder == "": // released, maybe
		last.end = e.sent
	case !accepted: // it does not count on this
	case holder == last.holder:
		last.end = end
	default:
		// client-go compares Leases by whole seconds: a standby does not see a renewal that
		// comes in the same second as the one before, and counts from that.
		if e.Received.Before(last.end.Add(-time.Second)) {
			a.violate(e, "takes the Lease that %s holds until %v", last.holder, last.end)
		}
		if e.Received.Before(last.end) {
			last.end = e.Received
		}
		a.identity[e.sender] = holder
		a.terms = append(a.terms, leaseTerm{holder, e.sent, end})
	}
}

// report is the violations, shortened.
func (a *auditor) report() string {
	const most = 20
	list := a.violations
	if len(list) > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, "\n")
}
