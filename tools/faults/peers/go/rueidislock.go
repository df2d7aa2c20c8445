package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// The value that rueidis recommends with sentinels.
const sentinelRefresh = 5 * time.Second

type rueidislockLocks struct{ locker rueidislock.Locker }

func newRueidislock(of setting) (library, error) {
	addresses, master := addresses(of.urls)
	option := rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: addresses},
		KeyValidity:    of.lease,
		KeyMajority:    1,
		NoLoopTracking: true,
	}
	switch of.deployment {
	case "sentinel":
		option.ClientOption.Sentinel = rueidis.SentinelOption{
			MasterSet: master, TopologyRefreshInterval: sentinelRefresh,
		}
	case "cluster":
		option.KeyMajority = 0 // the default, 2 of 3 keys; 1 is for a single instance
	}
	locker, err := rueidislock.NewLocker(option)
	return &rueidislockLocks{locker}, err
}

// acquire uses a timer for the wait. A deadline of the context would also end the held lock.
func (l *rueidislockLocks) acquire(name string, wait time.Duration) (hold, error) {
	waiting, giveUp := context.WithCancel(context.Background())
	timer := time.AfterFunc(wait, giveUp)
	ctx, release, err := l.locker.WithContext(waiting, name)
	if timer.Stop() && err == nil {
		return &rueidislockHold{ctx, release, giveUp}, nil
	}
	if err == nil {
		release()
		err = context.Canceled
	}
	giveUp()
	return nil, err
}

func (l *rueidislockLocks) renews() bool { return true }

type rueidislockHold struct {
	ctx    context.Context
	unlock context.CancelFunc
	giveUp context.CancelFunc
}

// isHeld checks the context, which is cancelled when the lock is lost.
func (h *rueidislockHold) isHeld() bool             { return h.ctx.Err() == nil }
func (h *rueidislockHold) until() (time.Time, bool) { return time.Time{}, false }
func (h *rueidislockHold) lost() <-chan struct{}    { return h.ctx.Done() }

// extend is never called, because rueidislock renews the lock.
func (h *rueidislockHold) extend() error { return nil }

// release always succeeds, because rueidislock reports no result.
func (h *rueidislockHold) release() error {
	h.unlock()
	h.giveUp()
	return nil
}
