// Package events tells users what was done by events that are not lost.
package events

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// eventBacklog is how many events may wait; a boundary of as many
	// Deployments emits them at once.
	eventBacklog = 1 << 16
	eventSenders = 4
	// correlatedEvents is how many Deployments' last events are remembered, to count
	// like ones; each takes about 2 kB. One that is forgotten is only written anew.
	correlatedEvents = 256
	// maxMessage is how many bytes of a message are kept: what events.k8s.io takes, less what
	// the correlator may put before it. Owners' words are in it, and thousands may wait.
	maxMessage = 1024 - len("(combined from similar events): ")
	// eventPause is how often a sender looks whether it may go on, and eventHold how long it
	// looks: who writes without rest must not silence what is told to others.
	eventPause = 20 * time.Millisecond
	eventHold  = 5 * time.Second
	// eventTimeout bounds one request.
	eventTimeout = 10 * time.Second
)

// eventRetry spreads the tries to deliver one event over about eleven minutes, so
// that a restart of the API server costs none.
var eventRetry = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 20}

// Recorder tells users about an object by an event.
type Recorder interface {
	Eventf(object corev1.ObjectReference, eventtype, reason, format string, args ...any)
}

// Deliverer is a Recorder that loses nothing: client-go's broadcaster
// drops what its sink cannot take at once, half the events of a boundary of
// 2,000 Deployments. It counts and aggregates like that one, by the same correlator,
// and limits alike, but however many objects there are.
type Deliverer struct {
	client     corev1client.EventsGetter
	component  string // that they come from
	correlator *record.EventCorrelator
	limiter    *limiter
	clock      clock.Clock
	// hold tells that scale writes are waiting: events then let them go first.
	hold func() bool

	backlog chan *pendingEvent
	closing chan struct{} // closed by Shutdown
	stop    context.CancelFunc
	senders sync.WaitGroup
	lost    atomic.Int64
}

// New makes a Deliverer of events that come from the component. Until Start nothing is sent.
func New(client corev1client.EventsGetter, component string, clk clock.Clock, hold func() bool) *Deliverer {
	return &Deliverer{
		client:    client,
		component: component,
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
			LRUCacheSize: correlatedEvents,
			Clock:        clk,
			// Its own limit is off: one bucket for all, never empty.
			SpamKeyFunc: func(*corev1.Event) string { return "" },
			BurstSize:   math.MaxInt32,
			QPS:         math.MaxInt32,
		}),
		limiter: newLimiter(),
		clock:   clk,
		hold:    hold,
		backlog: make(chan *pendingEvent, eventBacklog),
		closing: make(chan struct{}),
	}
}

// pendingEvent is what an event is made of when its turn comes: at a boundary all
// Deployments' wait at once, and an event of the API's takes five times as much.
type pendingEvent struct {
	object                     corev1.ObjectReference
	at                         time.Time
	eventtype, reason, message string
}

// Eventf queues an event and returns at once. The same object may have had too many of late:
// then it is dropped before it takes room from others.
func (e *Deliverer) Eventf(object corev1.ObjectReference, eventtype, reason, format string, args ...any) {
	now := e.clock.Now()
	if !e.limiter.allow(object, eventtype, now) {
		return
	}
	pending := &pendingEvent{object, now, eventtype, reason, cut(fmt.Sprintf(format, args...))}
	select {
	case e.backlog <- pending:
	default:
		e.lost.Add(1)
	}
}

// cut shortens a message that is too long.
func cut(message string) string {
	const more = "…"
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len(more)], "") + more
}

func (p *pendingEvent) event(component string) *corev1.Event {
	at := metav1.NewTime(p.at)
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: util.GenerateEventName(p.object.Name, p.at.UnixNano()), Namespace: p.object.Namespace},
		InvolvedObject:      p.object,
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		Type:                p.eventtype,
		Reason:              p.reason,
		Message:             p.message,
		FirstTimestamp:      at,
		LastTimestamp:       at,
		Count:               1,
	}
}

// Lost is how many events could not be delivered.
func (e *Deliverer) Lost() int64 { return e.lost.Load() }

// Start starts the senders. They work until Shutdown, or until ctx is done.
func (e *Deliverer) Start(ctx context.Context) {
	ctx, e.stop = context.WithCancel(ctx)
	for range eventSenders {
		e.senders.Go(func() { e.send(ctx) })
	}
}

// Shutdown delivers what waits, until ctx is done, and stops the senders. What
// is left then is lost, and logged as such.
func (e *Deliverer) Shutdown(ctx context.Context) {
	close(e.closing)
	done := make(chan struct{})
	go func() { e.senders.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	e.stop()
	<-done
	if n := e.lost.Load() + int64(len(e.backlog)); n > 0 {
		klog.FromContext(ctx).Info("Some events could not be delivered", "events", n)
	}
}

func (e *Deliverer) send(ctx context.Context) {
	for {
		var event *pendingEvent
		select {
		case event = <-e.backlog:
		default:
			select {
			case event = <-e.backlog:
			case <-e.closing:
				return
			case <-ctx.Done():
				return
			}
		}
		for left := eventHold; left > 0 && e.hold() && ctx.Err() == nil && !e.isClosing(); left -= eventPause {
			e.clock.Sleep(eventPause)
		}
		e.deliver(ctx, event.event(e.component))
		if ctx.Err() != nil {
			return
		}
	}
}

func (e *Deliverer) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// deliver writes one event, or the count of one that is there already.
func (e *Deliverer) deliver(ctx context.Context, event *corev1.Event) {
	result, err := e.correlator.EventCorrelate(event)
	if err == nil && result.Skip {
		return
	}
	if err == nil {
		err = wait.ExponentialBackoffWithContext(ctx, eventRetry, func(ctx context.Context) (bool, error) {
			err := e.write(ctx, result)
			if err == nil || !retriable(err) {
				return true, err
			}
			klog.FromContext(ctx).V(2).Info("Writing an event failed, will retry", "object", klog.KRef(event.Namespace, event.InvolvedObject.Name), "err", err)
			return false, nil
		})
	}
	if err != nil {
		e.lost.Add(1)
		klog.FromContext(ctx).V(2).Info("Lost an event", "object", klog.KRef(event.Namespace, event.InvolvedObject.Name), "reason", event.Reason, "err", err)
	}
}

func (e *Deliverer) write(ctx context.Context, result *record.EventCorrelateResult) error {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	events := e.client.Events(result.Event.Namespace)
	if result.Event.Count > 1 {
		written, err := events.Patch(ctx, result.Event.Name, types.StrategicMergePatchType, result.Patch, metav1.PatchOptions{FieldManager: e.component})
		if err == nil {
			e.correlator.UpdateState(written)
			return nil
		}
		if !apierrors.IsNotFound(err) { // else it has expired: make it anew
			return fmt.Errorf("patching an event: %w", err)
		}
	}
	result.Event.ResourceVersion = ""
	written, err := events.Create(ctx, result.Event, metav1.CreateOptions{FieldManager: e.component})
	if err != nil {
		return fmt.Errorf("creating an event: %w", err)
	}
	e.correlator.UpdateState(written)
	return nil
}

// retriable tells a trouble that passes from an answer that stays.
func retriable(err error) bool {
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		return true // the API server was not reached, or did not answer as itself
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}
