package main

import (
	"bufio"
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// What came on standard input: `stop`, or its end; `freeze-before-write UNTIL`; `block MS`.
type orders struct {
	stop context.Context
	// Both are moments of the monotonic clock.
	freezeUntil  atomic.Int64
	blockedUntil atomic.Int64
}

// listen obeys; it stops after this time anyway.
func listen(length time.Duration) *orders {
	stop, cancel := context.WithTimeout(context.Background(), length)
	orders := &orders{stop: stop}
	go func() {
		defer cancel()
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			order, argument, _ := strings.Cut(lines.Text(), " ")
			number, _ := strconv.ParseInt(argument, 10, 64)
			switch order {
			case "stop":
				return
			case "freeze-before-write":
				orders.freezeUntil.Store(number)
			case "block":
				orders.blockedUntil.Store(monotonic() + millis(int(number)).Nanoseconds())
			}
		}
	}()
	return orders
}

func (o *orders) stopping() bool { return o.stop.Err() != nil }

// freeze stops the process, if that was ordered and nobody has done it yet. It returns when the process goes on.
func (o *orders) freeze() {
	if o.freezeUntil.Swap(0) <= monotonic() {
		return
	}
	// A signal to this thread is delivered before the call returns. One to the process may be delivered later, by
	// another thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP); err != nil {
		fail(err)
	}
}

// block keeps the goroutine that called the library from all else, as a careless caller would. The library's own
// goroutines go on: nothing in Go stops them but the system.
func (o *orders) block() {
	for left := o.blockedUntil.Load() - monotonic(); left > 0; left = o.blockedUntil.Load() - monotonic() {
		time.Sleep(time.Duration(left))
	}
}

// pause ends early if the worker is to stop.
func (o *orders) pause(length time.Duration) {
	select {
	case <-o.stop.Done():
	case <-time.After(length):
	}
}
