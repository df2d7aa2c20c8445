package main

import (
	"errors"
	"math/rand"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	pool "github.com/go-redsync/redsync/v4/redis"
)

type redsyncLock struct {
	locks *redsync.Redsync
	key   string
	lease time.Duration
	mutex *redsync.Mutex
}

func newRedsync(servers []*redis.Client, key string, lease time.Duration) lock {
	pools := make([]pool.Pool, len(servers))
	for i, server := range servers {
		pools[i] = goredis.NewPool(server)
	}
	return &redsyncLock{locks: redsync.New(pools...), key: key, lease: lease}
}

// mutexWith makes the mutex: its settings cannot be changed later.
func (l *redsyncLock) mutexWith(options ...redsync.Option) *redsync.Mutex {
	often := redsync.WithRetryDelayFunc(func(int) time.Duration {
		return time.Duration(2+rand.Intn(15)) * time.Millisecond
	})
	options = append([]redsync.Option{redsync.WithExpiry(l.lease), often}, options...)
	return l.locks.NewMutex(l.key, options...)
}

func (l *redsyncLock) try() (bool, error) {
	// TryLock of a mutex that may try more often does not say why it failed.
	l.mutex = l.mutexWith(redsync.WithTries(1))
	err := l.mutex.Lock()
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return false, nil
	}
	return err == nil, err
}

func (l *redsyncLock) lock() error {
	l.mutex = l.mutexWith(redsync.WithTries(10_000))
	return l.mutex.Lock()
}

func (l *redsyncLock) release() (bool, error) { return unlessTaken(l.mutex.Unlock()) }

func (l *redsyncLock) extend(lease time.Duration) (bool, error) {
	l.mutex = l.mutexWith(redsync.WithExpiry(lease), redsync.WithValue(l.owner()))
	return unlessTaken(l.mutex.Extend())
}

func (l *redsyncLock) owner() string { return l.mutex.Value() }

func (l *redsyncLock) adopt(owner string) error {
	l.mutex = l.mutexWith(redsync.WithValue(owner))
	return nil
}

// unlessTaken makes an answer of what redsync reports as an error: the lock is gone, or another's.
// With a majority it is done, whatever the others say.
func unlessTaken(done bool, err error) (bool, error) {
	var taken *redsync.ErrTaken
	if done || errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return done, nil
	}
	return done, err
}
