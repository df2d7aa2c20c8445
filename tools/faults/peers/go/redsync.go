package main

import (
	"context"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

type redsyncLocks struct {
	locks *redsync.Redsync
	lease time.Duration
}

func newRedsync(of setting) (library, error) {
	clients, err := goRedis(of)
	if err != nil {
		return nil, err
	}
	pools := make([]redis.Pool, len(clients))
	for i, client := range clients {
		pools[i] = goredis.NewPool(client)
	}
	return &redsyncLocks{redsync.New(pools...), of.lease}, nil
}

// acquire uses redsync's own delays between tries. The context limits the wait; the number of tries is unlimited.
func (l *redsyncLocks) acquire(name string, wait time.Duration) (hold, error) {
	mutex := l.locks.NewMutex(name, redsync.WithExpiry(l.lease), redsync.WithTries(math.MaxInt))
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHold{mutex, l.lease}, nil
}

func (l *redsyncLocks) renews() bool { return false }

type redsyncHold struct {
	mutex *redsync.Mutex
	lease time.Duration
}

// isHeld checks Until, as the documentation of Valid recommends.
func (h redsyncHold) isHeld() bool             { return time.Now().Before(h.mutex.Until()) }
func (h redsyncHold) until() (time.Time, bool) { return h.mutex.Until(), true }
func (h redsyncHold) lost() <-chan struct{}    { return nil }

// extend needs a context with a deadline: redsync waits for all servers, even those that are unreachable.
func (h redsyncHold) extend() error {
	ctx, cancel := context.WithTimeout(context.Background(), h.lease/3)
	defer cancel()
	if done, err := h.mutex.ExtendContext(ctx); !done {
		return err
	}
	return nil
}

func (h redsyncHold) release() error {
	if done, err := h.mutex.Unlock(); !done {
		return err
	}
	return nil
}
