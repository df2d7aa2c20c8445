package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

type worker struct {
	number   int
	locks    library
	work     workload
	events   *history
	orders   *orders
	random   *rand.Rand
	resource net.Conn
	answers  *bufio.Reader
	// When to extend the lease of the hold.
	due time.Time
}

func newWorker(number int, locks library, work workload, events *history, orders *orders) (*worker, error) {
	resource, err := net.Dial("tcp", work.resource)
	if err != nil {
		return nil, fmt.Errorf("the resource: %w", err)
	}
	random := rand.New(rand.NewPCG(work.seed, uint64(events.process)<<32|uint64(number)))
	return &worker{
		number: number, locks: locks, work: work, events: events, orders: orders,
		random: random, resource: resource, answers: bufio.NewReader(resource),
	}, nil
}

func (w *worker) run() error {
	for !w.orders.stopping() {
		if err := w.turn(w.work.next(w.number, w.random)); err != nil {
			return err
		}
		w.orders.pause(w.work.think.pick(w.random))
	}
	return nil
}

// turn performs one acquisition, works under the lock and releases it. It fails only if the resource fails.
func (w *worker) turn(next plan) error {
	w.record(next.name, "asked", fields{"mode": "exclusive"})
	held, err := w.locks.acquire(next.name, next.wait)
	if err != nil {
		w.record(next.name, "refused", fields{"error": kind(err), "timeout": isTimeout(err)})
		return nil
	}
	w.due = time.Now().Add(w.work.lease / 3)
	w.record(next.name, "granted", untilOf(held))
	if err := w.section(next, held); err != nil {
		return err
	}
	w.record(next.name, "releasing", nil)
	w.record(next.name, "released", failed(held.release()))
	return nil
}

// section works as planned, or until the library no longer reports that the lock is held.
func (w *worker) section(next plan, held hold) error {
	leave := time.Now().Add(next.stay)
	if next.isPaused {
		w.record(next.name, "did", fields{"what": "paused"})
		// A worker that does not check the lock does not notice a loss either.
		if !w.idle(next.name, held, next.stay, nil) {
			return nil
		}
	}
	for {
		w.orders.block()
		if !held.isHeld() {
			w.record(next.name, "doubted", nil)
			return nil
		}
		w.record(next.name, "held", untilOf(held))
		w.orders.freeze()
		if err := w.write(next.name); err != nil {
			return err
		}
		if !time.Now().Before(leave) || w.orders.stopping() || !w.idle(next.name, held, next.step, held.lost()) {
			return nil
		}
	}
}

// idle waits, and extends the lease each time a third of it has passed. It returns early if the worker must stop, and
// returns false if the lock is lost.
func (w *worker) idle(name string, held hold, length time.Duration, lost <-chan struct{}) bool {
	for end := time.Now().Add(length); ; {
		wake := end
		if !w.locks.renews() && w.due.Before(end) {
			wake = w.due
		}
		select {
		case <-lost:
			w.record(name, "lost", fields{"reason": "Cancelled"})
			return false
		case <-w.orders.stop.Done():
			return true
		case <-time.After(time.Until(wake)):
		}
		if wake == end {
			return true
		}
		if !w.extend(name, held) {
			return false
		}
	}
}

// extend extends the lease. After an error that does not mean that the lock is lost, it is due again soon.
func (w *worker) extend(name string, held hold) bool {
	w.orders.block()
	sent := time.Now()
	err := held.extend()
	did := failed(err)
	did["what"] = "renewed"
	w.record(name, "did", did)
	w.due = sent.Add(w.work.lease / 3)
	if err != nil {
		w.due = sent.Add(w.work.lease / 10)
	}
	if isLoss(err) {
		w.record(name, "lost", fields{"reason": kind(err)})
		return false
	}
	return true
}

func (w *worker) write(name string) error {
	if _, err := fmt.Fprintf(w.resource, "W %s - %d.%d\n", name, w.events.process, w.number); err != nil {
		return fmt.Errorf("the resource: %w", err)
	}
	answer, err := w.answers.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the resource: %w", err)
	}
	if answer != "ok\n" && answer != "refused\n" {
		return fmt.Errorf("unexpected answer of the resource: %q", answer)
	}
	w.record(name, "wrote", fields{"accepted": answer == "ok\n"})
	return nil
}

func (w *worker) record(name, event string, more fields) {
	w.events.record(w.number, name, event, more)
}

func failed(err error) fields {
	if err == nil {
		return fields{}
	}
	return fields{"error": kind(err)}
}

func untilOf(held hold) fields {
	if until, known := held.until(); known {
		return fields{"until": onSharedClock(until)}
	}
	return nil
}
