// Drives redsync and redislock for the tests: one command a line, one answer a line.
//
// A command is `<id> <word> <arguments>`, its answer `<id> ok <value>` or `<id> err <text>`. Each runs
// by itself, so that one that waits keeps nobody else waiting. Locks are known by aliases.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A lock of one of the libraries.
type lock interface {
	// try asks once.
	try() (bool, error)
	// lock waits until it is taken.
	lock() error
	// release and extend say whether the library calls it done.
	release() (bool, error)
	extend(time.Duration) (bool, error)
	owner() string
	// adopt makes it the lock that another program took, by its owner text.
	adopt(owner string) error
}

type maker func(servers []*redis.Client, key string, lease time.Duration) lock

var libraries = map[string]maker{"redsync": newRedsync, "redislock": newRedislock}

type driver struct {
	servers []*redis.Client
	guard   sync.Mutex
	locks   map[string]lock
}

func (d *driver) named(alias string) lock {
	d.guard.Lock()
	defer d.guard.Unlock()
	return d.locks[alias]
}

// connect opens a connection to each server that is up, without a limit of time: redsync gives a server
// a part of the lease only, which a short one would spend on the first dial.
func (d *driver) connect() {
	var all sync.WaitGroup
	for _, server := range d.servers {
		all.Add(1)
		go func(server *redis.Client) {
			defer all.Done()
			// One that is down is for the test to meet.
			_ = server.Ping(context.Background()).Err()
		}(server)
	}
	all.Wait()
}

// make takes `<library> <alias> <key> <lease ms>`.
func (d *driver) make(words []string) error {
	lease, err := millis(words[3])
	if err != nil {
		return err
	}
	d.connect()
	d.guard.Lock()
	defer d.guard.Unlock()
	d.locks[words[1]] = libraries[words[0]](d.servers, words[2], lease)
	return nil
}

func (d *driver) run(word string, words []string) (any, error) {
	switch word {
	case "make":
		return "made", d.make(words)
	case "contend":
		return d.contend(words)
	}
	mine := d.named(words[0])
	switch word {
	case "try":
		return mine.try()
	case "lock":
		return "locked", mine.lock()
	case "release":
		return mine.release()
	case "extend":
		lease, err := millis(words[1])
		if err != nil {
			return nil, err
		}
		return mine.extend(lease)
	case "owner":
		return mine.owner(), nil
	case "adopt":
		return "adopted", mine.adopt(words[1])
	}
	return nil, errors.New("no such command")
}

// contend takes `<library> <contenders> <rounds> <key> <lease ms>`; it enters by many at once and
// says how often somebody else was inside. They count on the first server.
func (d *driver) contend(words []string) (any, error) {
	contenders, _ := strconv.Atoi(words[1])
	rounds, _ := strconv.Atoi(words[2])
	lease, err := millis(words[4])
	if err != nil {
		return nil, err
	}
	outcomes := make(chan error, contenders)
	for i := 0; i < contenders; i++ {
		mine := libraries[words[0]](d.servers, words[3], lease)
		go func() { outcomes <- enter(mine, d.servers[0], rounds) }()
	}
	met := 0
	for i := 0; i < contenders; i++ {
		switch err := <-outcomes; {
		case errors.Is(err, errMet):
			met++
		case err != nil:
			return nil, err
		}
	}
	return met, nil
}

var errMet = errors.New("somebody was inside")

func enter(mine lock, outside *redis.Client, rounds int) error {
	ctx := context.Background()
	for i := 0; i < rounds; i++ {
		if err := mine.lock(); err != nil {
			return err
		}
		inside, err := outside.Incr(ctx, "inside").Result()
		if err != nil {
			return err
		}
		if inside != 1 {
			return errMet
		}
		before, err := outside.Get(ctx, "entered").Int()
		if err != nil && err != redis.Nil {
			return err
		}
		time.Sleep(time.Millisecond)
		outside.Set(ctx, "entered", before+1, 0)
		outside.Decr(ctx, "inside")
		if _, err := mine.release(); err != nil {
			return err
		}
	}
	return nil
}

func millis(text string) (time.Duration, error) {
	number, err := strconv.Atoi(text)
	return time.Duration(number) * time.Millisecond, err
}

func main() {
	all := driver{locks: map[string]lock{}}
	for _, url := range os.Args[1:] {
		options, err := redis.ParseURL(url)
		if err != nil {
			panic(err)
		}
		all.servers = append(all.servers, redis.NewClient(options))
	}
	var printing sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		go func() {
			outcome := "ok"
			value, err := all.run(words[1], words[2:])
			if err != nil {
				outcome, value = "err", strings.Join(strings.Fields(err.Error()), " ")
			}
			printing.Lock()
			defer printing.Unlock()
			fmt.Println(words[0], outcome, value)
		}()
	}
}
