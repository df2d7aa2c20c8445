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

// acquire has redsync's own delays between its tries; the context, not their number, ends them.
func (l *redsyncLocks) acquire(name string, wait time.Duration) (hold, error) {
	mutex := l.locks.NewMutex(name, redsync.WithExpiry(l.lease), redsync.WithTries(math.MaxInt))
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHold{mutex}, nil
}

type redsyncHold struct{ mutex *redsync.Mutex }

func (h redsyncHold) until() (time.Time, bool) { return h.mutex.Until(), true }
func (h redsyncHold) isHeld() bool             { return time.Now().Before(h.mutex.Until()) }
func (h redsyncHold) lost() <-chan struct{}    { return nil }
func (h redsyncHold) keep() error              { return nil }

func (h redsyncHold) release() error {
	if done, err := h.mutex.Unlock(); !done {
		return err
	}
	return nil
}
