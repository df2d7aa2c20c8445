package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// How often a section writes to the resource.
const step = 5 * time.Millisecond

type worker struct {
	number   int
	locks    library
	work     workload
	told     *history
	orders   *orders
	random   *rand.Rand
	resource net.Conn
	answers  *bufio.Reader
}

func newWorker(number int, locks library, work workload, told *history, orders *orders) (*worker, error) {
	resource, err := net.Dial("tcp", work.resource)
	if err != nil {
		return nil, fmt.Errorf("the resource: %w", err)
	}
	stream := uint64(told.process)<<32 | uint64(number)
	return &worker{
		number, locks, work, told, orders, rand.New(rand.NewPCG(work.seed, stream)), resource, bufio.NewReader(resource),
	}, nil
}

func (w *worker) run() error {
	for !w.orders.stopping() {
		if err := w.turn(w.work.names[w.random.IntN(len(w.work.names))]); err != nil {
			return err
		}
		w.orders.pause(w.oneOf(w.work.think))
	}
	return nil
}

// turn is one acquisition with all that follows; an error is of the resource.
func (w *worker) turn(name string) error {
	w.tell(name, "asked", fields{"mode": "exclusive"})
	held, err := w.locks.acquire(name, w.work.wait)
	if err != nil {
		w.tell(name, "refused", fields{"error": kind(err), "timeout": isTimeout(err)})
		return nil
	}
	w.tell(name, "granted", untilOf(held))
	if err := w.section(name, held); err != nil {
		return err
	}
	w.tell(name, "releasing", nil)
	err = held.release()
	released := fields{}
	if err != nil {
		released["error"] = kind(err)
	}
	w.tell(name, "released", released)
	return nil
}

// section goes on for a random time, or until the library no longer says that the lock is held.
func (w *worker) section(name string, held hold) error {
	for end := time.Now().Add(w.oneOf(w.work.hold)); time.Now().Before(end) && !w.orders.stopping(); {
		w.orders.block()
		if err := held.keep(); err != nil {
			w.tell(name, "lost", fields{"reason": kind(err)})
			return nil
		}
		select {
		case <-held.lost():
			w.tell(name, "lost", fields{"reason": "Cancelled"})
			return nil
		default:
		}
		if !held.isHeld() {
			w.tell(name, "doubted", nil)
			return nil
		}
		w.tell(name, "held", untilOf(held))
		if err := w.write(name); err != nil {
			return err
		}
		select {
		case <-held.lost():
		case <-time.After(step):
		}
	}
	return nil
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

func (w *worker) oneOf(times span) time.Duration {
	return times.from + time.Duration(w.random.Int64N(int64(times.to-times.from)+1))
}

func untilOf(held hold) fields {
	if until, known := held.until(); known {
		return fields{"until": onSharedClock(until)}
	}
	return nil
}
