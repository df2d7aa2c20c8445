package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockLock is on one server: redislock knows no more.
type redislockLock struct {
	client *redislock.Client
	key    string
	lease  time.Duration
	held   *redislock.Lock
}

func newRedislock(servers []*redis.Client, key string, lease time.Duration) lock {
	return &redislockLock{client: redislock.New(servers[0]), key: key, lease: lease}
}

func (l *redislockLock) obtain(ctx context.Context, options redislock.Options) error {
	held, err := l.client.Obtain(ctx, l.key, l.lease, &options)
	if err == nil {
		l.held = held
	}
	return err
}

func (l *redislockLock) try() (bool, error) {
	// The value is the token with the metadata behind it.
	err := l.obtain(context.Background(), redislock.Options{Metadata: "/job-17"})
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (l *redislockLock) lock() error {
	// Without a deadline it waits for one lease at most.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	often := redislock.LinearBackoff(5 * time.Millisecond)
	return l.obtain(ctx, redislock.Options{RetryStrategy: often})
}

func (l *redislockLock) release() (bool, error) {
	err := l.held.Release(context.Background())
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return false, nil
	}
	return err == nil, err
}

func (l *redislockLock) extend(lease time.Duration) (bool, error) {
	err := l.held.Refresh(context.Background(), lease, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (l *redislockLock) owner() string { return l.held.Token() + l.held.Metadata() }

// adopt obtains it with a token that is in the key already: then redislock takes it anew.
func (l *redislockLock) adopt(owner string) error {
	return l.obtain(context.Background(), redislock.Options{Token: owner})
}
