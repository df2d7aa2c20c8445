package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
)

// How often redislock asks for a lock that is held, as in its example of retries.
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
	return &redislockHold{lock, l.lease, time.Now()}, nil
}

type redislockHold struct {
	lock      *redislock.Lock
	lease     time.Duration
	refreshed time.Time
}

func (h *redislockHold) until() (time.Time, bool) { return time.Time{}, false }

// isHeld: what it was last told; redislock knows only what it asks the server.
func (h *redislockHold) isHeld() bool          { return true }
func (h *redislockHold) lost() <-chan struct{} { return nil }

func (h *redislockHold) keep() error {
	if time.Since(h.refreshed) < h.lease/3 {
		return nil
	}
	err := h.lock.Refresh(context.Background(), h.lease, nil)
	h.refreshed = time.Now()
	return err
}

func (h *redislockHold) release() error { return h.lock.Release(context.Background()) }
