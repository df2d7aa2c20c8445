package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
)

// Pause between two attempts to get a held lock, as in redislock's example of retries.
const redislockRetry = 100 * time.Millisecond

type redislockLocks struct {
	client *redislock.Client
	lease  time.Duration
}

func newRedislock(of setting) (library, error) {
	clients, err := goRedis(of)
	if err != nil {
		return nil, err
	}
	return &redislockLocks{redislock.New(clients[0]), of.lease}, nil
}

func (l *redislockLocks) acquire(name string, wait time.Duration) (hold, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	often := &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockRetry)}
	lock, err := l.client.Obtain(ctx, name, l.lease, often)
	if err != nil {
		return nil, err
	}
	return redislockHold{lock, l.lease}, nil
}

func (l *redislockLocks) renews() bool { return false }

type redislockHold struct {
	lock  *redislock.Lock
	lease time.Duration
}

// isHeld asks the server, because redislock itself does not track the lease.
func (h redislockHold) isHeld() bool {
	ctx, cancel := context.WithTimeout(context.Background(), h.lease/3)
	defer cancel()
	left, err := h.lock.TTL(ctx)
	return err == nil && left > 0
}

func (h redislockHold) until() (time.Time, bool) { return time.Time{}, false }
func (h redislockHold) lost() <-chan struct{}    { return nil }

func (h redislockHold) extend() error {
	ctx, cancel := context.WithTimeout(context.Background(), h.lease/3)
	defer cancel()
	return h.lock.Refresh(ctx, h.lease, nil)
}

func (h redislockHold) release() error { return h.lock.Release(context.Background()) }
