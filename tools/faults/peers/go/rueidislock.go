package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// What rueidis calls a reasonable value, and recommends with sentinels.
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
		option.KeyMajority = 0 // its default, 2 of 3 keys: 1 is for a single instance
	}
	locker, err := rueidislock.NewLocker(option)
	return &rueidislockLocks{locker}, err
}

// acquire cannot give the wait as a deadline of the context: the lock itself would end with it.
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

// isHeld looks at the context, which is the lock.
func (h *rueidislockHold) isHeld() bool             { return h.ctx.Err() == nil }
func (h *rueidislockHold) until() (time.Time, bool) { return time.Time{}, false }
func (h *rueidislockHold) lost() <-chan struct{}    { return h.ctx.Done() }

// prolong is never called: rueidislock does it.
func (h *rueidislockHold) prolong() error { return nil }

// release has no result in rueidislock.
func (h *rueidislockHold) release() error {
	h.unlock()
	h.giveUp()
	return nil
}
