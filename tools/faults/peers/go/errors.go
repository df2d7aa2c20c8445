package main

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var named = []struct {
	err  error
	name string
}{
	{redsync.ErrFailed, "ErrFailed"},
	{redsync.ErrExtendFailed, "ErrExtendFailed"},
	{redsync.ErrLockAlreadyExpired, "ErrLockAlreadyExpired"},
	{redislock.ErrNotObtained, "ErrNotObtained"},
	{redislock.ErrLockNotHeld, "ErrLockNotHeld"},
	{rueidislock.ErrNotLocked, "ErrNotLocked"},
	{rueidislock.ErrLockerClosed, "ErrLockerClosed"},
	{rueidis.ErrClosing, "ErrClosing"},
	{redis.ErrPoolTimeout, "ErrPoolTimeout"},
	{context.DeadlineExceeded, "DeadlineExceeded"},
	{context.Canceled, "Canceled"},
	{io.EOF, "EOF"},
	{io.ErrUnexpectedEOF, "EOF"},
	{net.ErrClosed, "ErrClosed"},
}

// kind returns a short name for the error.
func kind(err error) string {
	var taken *redsync.ErrTaken
	var nodeTaken *redsync.ErrNodeTaken
	var system syscall.Errno
	var network net.Error
	var server redis.Error
	var rueidisServer *rueidis.RedisError
	if errors.As(err, &taken) || errors.As(err, &nodeTaken) {
		return "ErrTaken"
	}
	for _, known := range named {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	switch {
	case errors.As(err, &system):
		return system.Error()
	case errors.As(err, &network) && network.Timeout():
		return "i/o timeout"
	case errors.As(err, &server):
		return firstWord(server.Error())
	case errors.As(err, &rueidisServer):
		return firstWord(rueidisServer.Error())
	}
	return err.Error()
}

// firstWord returns the kind of a server error, for example MISCONF or READONLY.
func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// isTimeout returns whether the library did not get the lock in time, and reports no other problem.
func isTimeout(err error) bool {
	switch kind(err) {
	case "ErrTaken", "ErrFailed", "ErrNotObtained", "ErrNotLocked":
		return true
	}
	// The end of our own wait is not wrapped. The timeout of a single call is wrapped, and does not count.
	return err == context.DeadlineExceeded || err == context.Canceled
}

// isLoss returns whether extending the lease failed because the lock belongs to another holder or to none. With several
// servers, the majority decides.
func isLoss(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken) || errors.Is(err, redislock.ErrNotObtained)
}
