// One client process of the published fault run, with the locks of a Go library: tools/faults/src/peers.rs.
//
// Events go to standard output as tools/faults/src/history.rs has them; orders.go reads those of standard input.
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

// A held lock of one of the libraries.
type hold interface {
	// isHeld asks as the library's documentation says. What cannot be answered is a no.
	isHeld() bool
	// until says how long the lock is certainly held, if the library knows without asking a server.
	until() (time.Time, bool)
	// lost is closed when the library reports a loss by itself; nil if it never does.
	lost() <-chan struct{}
	// prolong starts the lease again, where that is the user's task.
	prolong() error
	release() error
}

// The locks of one library.
type library interface {
	// acquire waits for so long; an error says that the lock is not held.
	acquire(name string, wait time.Duration) (hold, error)
	// renews: the library prolongs leases by itself.
	renews() bool
}

// What the libraries need to know.
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

// What a worker has to do.
type workload struct {
	lease, wait, step time.Duration
	hold, long, think span
	seed              uint64
	resource          string
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
	workloads := flag.String("workloads", "plain", "plain is the only one")
	lease := flag.Int("lease-ms", 2000, "of a hold")
	wait := flag.Int("wait-ms", 1000, "for a lock")
	step := flag.Int("step-ms", 6, "between two writes of a quick worker")
	hold := flag.String("hold-ms", "5-60", "how long a quick worker stays inside")
	long := flag.String("long-ms", "200-7500", "how long a long one does")
	think := flag.String("think-ms", "1-10", "how long a worker rests")
	seed := flag.Uint64("seed", 0, "of all that is random")
	seconds := flag.Int("seconds", 3, "how long it goes on")
	resource := flag.String("resource", "", "host:port, where sections write")
	flag.Parse()

	told := &history{process: *process, out: bufio.NewWriter(os.Stdout)}
	if *workloads != "plain" {
		fail(fmt.Errorf("no such workload: %s", *workloads))
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
	told.tell(0, "", "started", fields{"pid": os.Getpid(), "library": *name + " " + version(libraries[*name].module)})

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

// version of a module that this program was built with.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, built := range info.Deps {
		if built.Path == module {
			return strings.TrimPrefix(built.Version, "v")
		}
	}
	return "unknown"
}
