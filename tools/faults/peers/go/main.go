// A client process of the published fault run that uses the locks of a Go library: tools/faults/src/peers.rs.
//
// It writes events to standard output in the format of tools/faults/src/history.rs, and reads orders from standard input
// (orders.go).
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// hold is a held lock of one of the libraries.
type hold interface {
	// isHeld checks the lock as the library's documentation says. An error counts as not held.
	isHeld() bool
	// until returns how long the lock is certainly held, if the library knows that without asking a server.
	until() (time.Time, bool)
	// lost is closed when the library reports a loss unasked. It is nil if the library never does.
	lost() <-chan struct{}
	// extend restarts the lease, if that is the task of the user.
	extend() error
	release() error
}

// library has the locks of one library.
type library interface {
	// acquire waits for at most this time. If it returns an error, the lock is not held.
	acquire(name string, wait time.Duration) (hold, error)
	// renews returns whether the library renews leases in the background.
	renews() bool
}

// setting is the configuration of a library.
type setting struct {
	urls       []string
	deployment string
	lease      time.Duration
}

var libraries = map[string]struct {
	connect func(setting) (library, error)
	module  string
}{
	"redsync":     {newRedsync, "github.com/go-redsync/redsync/v4"},
	"redislock":   {newRedislock, "github.com/bsm/redislock"},
	"rueidislock": {newRueidislock, "github.com/redis/rueidis"},
}

// workload is the configuration of a worker.
type workload struct {
	lease, wait, step time.Duration
	hold, long, think span
	seed              uint64
	resource          string
}

// span is a range of durations from which one is picked at random.
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
	url := flag.String("url", "", "one URL, or several separated by commas")
	deployment := flag.String("deployment", "single", "single, sentinel, cluster or five")
	process := flag.Int("process", 1, "number of this process in the history")
	workers := flag.Int("workers", 1, "number of workers")
	workloads := flag.String("workloads", "plain", "must be plain")
	lease := flag.Int("lease-ms", 2000, "lease of a hold")
	wait := flag.Int("wait-ms", 1000, "how long to wait for a lock")
	step := flag.Int("step-ms", 6, "time between two writes of a quick worker")
	hold := flag.String("hold-ms", "5-60", "how long a quick worker holds a lock")
	long := flag.String("long-ms", "200-7500", "how long a long hold lasts")
	think := flag.String("think-ms", "1-10", "how long a worker rests between two acquisitions")
	seed := flag.Uint64("seed", 0, "seed of all random choices")
	seconds := flag.Int("seconds", 3, "how long to run")
	resource := flag.String("resource", "", "host:port of the resource")
	flag.Parse()

	events := &history{process: *process, out: bufio.NewWriter(os.Stdout)}
	if *workloads != "plain" {
		fail(fmt.Errorf("unknown workload: %s", *workloads))
	}
	locks, err := libraries[*name].connect(setting{strings.Split(*url, ","), *deployment, millis(*lease)})
	if err != nil {
		fail(err)
	}
	work := workload{
		lease: millis(*lease), wait: millis(*wait), step: millis(*step), seed: *seed, resource: *resource,
	}
	for _, each := range []struct {
		span *span
		text string
	}{{&work.hold, *hold}, {&work.long, *long}, {&work.think, *think}} {
		if *each.span, err = parseSpan(each.text); err != nil {
			fail(err)
		}
	}
	events.record(0, "", "started", fields{"pid": os.Getpid(), "library": *name + " " + version(libraries[*name].module)})

	orders := listen(time.Duration(*seconds) * time.Second)
	go sample(events)
	var all sync.WaitGroup
	for number := range *workers {
		worker, err := newWorker(number, locks, work, events, orders)
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
	events.record(0, "", "ended", fields{"counts": fields{}})
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// version returns the version of a module that this program was built with.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, built := range info.Deps {
		if built.Path == module {
			return strings.TrimPrefix(built.Version, "v")
		}
	}
	return "unknown"
}
