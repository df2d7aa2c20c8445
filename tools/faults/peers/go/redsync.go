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
	return redsyncHold{mutex, l.lease}, nil
}

func (l *redsyncLocks) renews() bool { return false }

type redsyncHold struct {
	mutex *redsync.Mutex
	lease time.Duration
}

// isHeld looks at Until, as the documentation of Valid says to.
func (h redsyncHold) isHeld() bool             { return time.Now().Before(h.mutex.Until()) }
func (h redsyncHold) until() (time.Time, bool) { return h.mutex.Until(), true }
func (h redsyncHold) lost() <-chan struct{}    { return nil }

// prolong: redsync waits for all servers, so the context has to end a call to one that is away.
func (h redsyncHold) prolong() error {
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
