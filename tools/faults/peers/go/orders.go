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

// orders are the orders from standard input: `stop`, `freeze-before-write UNTIL` and `block MS`. The end of the input
// means `stop`.
type orders struct {
	stop context.Context
	// Both are times of the monotonic clock.
	freezeUntil  atomic.Int64
	blockedUntil atomic.Int64
}

// listen reads orders from standard input. Without a `stop`, the client stops after this time.
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

// freeze stops the process if that was ordered and no other worker has done it yet. It returns when the process
// continues.
func (o *orders) freeze() {
	if o.freezeUntil.Swap(0) <= monotonic() {
		return
	}
	// Signal this thread, because such a signal is delivered before the call returns. A signal to the process may be
	// delivered later, on another thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP); err != nil {
		fail(err)
	}
}

// block blocks the goroutine that called the library, as a careless caller would. The library's own goroutines continue,
// because a Go program cannot block them.
func (o *orders) block() {
	for left := o.blockedUntil.Load() - monotonic(); left > 0; left = o.blockedUntil.Load() - monotonic() {
		time.Sleep(time.Duration(left))
	}
}

// pause sleeps. It returns early if the worker must stop.
func (o *orders) pause(length time.Duration) {
	select {
	case <-o.stop.Done():
	case <-time.After(length):
	}
}
