// One client process of the published fault run, with the locks of a Go library: tests/faults/run/peers.rs.
//
// Events go to standard output as tests/faults/run/history.rs has them; `stop` and `block MS` come on standard input.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A held lock of one of the libraries.
type hold interface {
	// until says how long the lock is certainly held, if the library knows.
	until() (time.Time, bool)
	// isHeld asks what a user may ask locally, at no cost.
	isHeld() bool
	// lost is closed when the library tells of a loss by itself; nil if it never does.
	lost() <-chan struct{}
	// keep prolongs the lease where that is the user's task; an error ends the section.
	keep() error
	release() error
}

// The locks of one library.
type library interface {
	// acquire waits for so long; an error says that the lock is not held.
	acquire(name string, wait time.Duration) (hold, error)
}

// What the libraries need to know.
type setting struct {
	urls       []string
	deployment string
	lease      time.Duration
}

var libraries = map[string]func(setting) (library, error){
	"redsync":     newRedsync,
	"redislock":   newRedislock,
	"rueidislock": newRueidislock,
}

// What a worker has to do.
type workload struct {
	names       []string
	wait        time.Duration
	hold, think span
	seed        uint64
	resource    string
}

// A span of time out of which one is taken at random.
type span struct{ from, to time.Duration }

func parseSpan(text string) (span, error) {
	from, to, _ := strings.Cut(text, "-")
	first, err := strconv.Atoi(from)
	if err != nil {
		return span{}, err
	}
	last, err := strconv.Atoi(to)
	return span{millis(first), millis(last)}, err
}

func millis(number int) time.Duration { return time.Duration(number) * time.Millisecond }

func main() {
	name := flag.String("library", "", "redsync, redislock or rueidislock")
	url := flag.String("url", "", "one, or several with commas between")
	deployment := flag.String("deployment", "single", "single, sentinel, cluster or five")
	process := flag.Int("process", 1, "its number in the history")
	workers := flag.Int("workers", 1, "how many at once")
	names := flag.String("names", "0", "of the locks")
	lease := flag.Int("lease-ms", 2000, "of a hold")
	wait := flag.Int("wait-ms", 1000, "for a lock")
	hold := flag.String("hold-ms", "10-50", "how long a section lasts")
	think := flag.String("think-ms", "1-10", "how long a worker rests")
	seed := flag.Uint64("seed", 0, "of all that is random")
	seconds := flag.Int("seconds", 3, "how long it goes on")
	resource := flag.String("resource", "", "host:port, where sections write")
	flag.Parse()

	told := &history{process: *process, out: bufio.NewWriter(os.Stdout)}
	locks, err := libraries[*name](setting{strings.Split(*url, ","), *deployment, millis(*lease)})
	if err != nil {
		fail(err)
	}
	work := workload{wait: millis(*wait), seed: *seed, resource: *resource}
	for _, number := range strings.Split(*names, ",") {
		work.names = append(work.names, "plain:"+number)
	}
	if work.hold, err = parseSpan(*hold); err != nil {
		fail(err)
	}
	if work.think, err = parseSpan(*think); err != nil {
		fail(err)
	}
	told.tell(0, "", "started", fields{"pid": os.Getpid(), "library": *name})

	orders := listen(time.Duration(*seconds) * time.Second)
	go sample(told)
	var all sync.WaitGroup
	for number := range *workers {
		worker, err := newWorker(number, locks, work, told, orders)
		if err != nil {
			fail(err)
		}
		all.Go(func() {
			if err := worker.run(); err != nil {
				fail(err)
			}
		})
	}
	all.Wait()
	told.tell(0, "", "ended", fields{"counts": fields{}})
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// What came on standard input.
type orders struct {
	stop context.Context
	// blockedUntil is a moment of the monotonic clock.
	blockedUntil atomic.Int64
}

func listen(length time.Duration) *orders {
	stop, cancel := context.WithTimeout(context.Background(), length)
	orders := &orders{stop: stop}
	go func() {
		defer cancel()
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			words := strings.Fields(lines.Text())
			switch {
			case len(words) == 1 && words[0] == "stop":
				return
			case len(words) == 2 && words[0] == "block":
				if number, err := strconv.Atoi(words[1]); err == nil {
					orders.blockedUntil.Store(monotonic() + millis(number).Nanoseconds())
				}
			}
		}
	}()
	return orders
}

func (o *orders) stopping() bool { return o.stop.Err() != nil }

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
