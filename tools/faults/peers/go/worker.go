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
	told     *history
	orders   *orders
	random   *rand.Rand
	resource net.Conn
	answers  *bufio.Reader
	// When the lease of the hold is to be prolonged.
	due time.Time
}

func newWorker(number int, locks library, work workload, told *history, orders *orders) (*worker, error) {
	resource, err := net.Dial("tcp", work.resource)
	if err != nil {
		return nil, fmt.Errorf("the resource: %w", err)
	}
	random := rand.New(rand.NewPCG(work.seed, uint64(told.process)<<32|uint64(number)))
	return &worker{
		number: number, locks: locks, work: work, told: told, orders: orders,
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

// turn is one acquisition with all that follows; an error is of the resource.
func (w *worker) turn(next plan) error {
	w.tell(next.name, "asked", fields{"mode": "exclusive"})
	held, err := w.locks.acquire(next.name, next.wait)
	if err != nil {
		w.tell(next.name, "refused", fields{"error": kind(err), "timeout": isTimeout(err)})
		return nil
	}
	w.due = time.Now().Add(w.work.lease / 3)
	w.tell(next.name, "granted", untilOf(held))
	if err := w.section(next, held); err != nil {
		return err
	}
	w.tell(next.name, "releasing", nil)
	w.tell(next.name, "released", failed(held.release()))
	return nil
}

// section goes on as planned, or until the library no longer says that the lock is held.
func (w *worker) section(next plan, held hold) error {
	leave := time.Now().Add(next.stay)
	if next.isPaused {
		w.tell(next.name, "did", fields{"what": "paused"})
		// Whoever does not look at the lock does not see it lost either.
		if !w.idle(next.name, held, next.stay, nil) {
			return nil
		}
	}
	for {
		w.orders.block()
		if !held.isHeld() {
			w.tell(next.name, "doubted", nil)
			return nil
		}
		w.tell(next.name, "held", untilOf(held))
		w.orders.freeze()
		if err := w.write(next.name); err != nil {
			return err
		}
		if !time.Now().Before(leave) || w.orders.stopping() || !w.idle(next.name, held, next.step, held.lost()) {
			return nil
		}
	}
}

// idle prolongs the lease when a third of it is over. It ends early if the worker is to stop; false says that the lock
// is lost.
func (w *worker) idle(name string, held hold, length time.Duration, lost <-chan struct{}) bool {
	for end := time.Now().Add(length); ; {
		wake := end
		if !w.locks.renews() && w.due.Before(end) {
			wake = w.due
		}
		select {
		case <-lost:
			w.tell(name, "lost", fields{"reason": "Cancelled"})
			return false
		case <-w.orders.stop.Done():
			return true
		case <-time.After(time.Until(wake)):
		}
		if wake == end {
			return true
		}
		if !w.prolong(name, held) {
			return false
		}
	}
}

// prolong is tried again soon after an error that does not say that the lock is lost.
func (w *worker) prolong(name string, held hold) bool {
	w.orders.block()
	sent := time.Now()
	err := held.prolong()
	did := failed(err)
	did["what"] = "renewed"
	w.tell(name, "did", did)
	w.due = sent.Add(w.work.lease / 3)
	if err != nil {
		w.due = sent.Add(w.work.lease / 10)
	}
	if isLoss(err) {
		w.tell(name, "lost", fields{"reason": kind(err)})
		return false
	}
	return true
}

func (w *worker) write(name string) error {
	if _, err := fmt.Fprintf(w.resource, "W %s - %d.%d\n", name, w.told.process, w.number); err != nil {
		return fmt.Errorf("the resource: %w", err)
	}
	answer, err := w.answers.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the resource: %w", err)
	}
	if answer != "ok\n" && answer != "refused\n" {
		return fmt.Errorf("the resource says %q", answer)
	}
	w.tell(name, "wrote", fields{"accepted": answer == "ok\n"})
	return nil
}

func (w *worker) tell(name, event string, more fields) { w.told.tell(w.number, name, event, more) }

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
