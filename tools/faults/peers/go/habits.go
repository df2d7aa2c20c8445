package main

import (
	"math/rand/v2"
	"time"
)

// Time between two checks of a long hold.
const longStep = 20 * time.Millisecond

// plan says what a worker does next. The drivers of all libraries use the same plan.
type plan struct {
	name string
	// wait limits the wait for the lock, stay is how long the lock is held, and step is the time between two checks.
	wait, stay, step time.Duration
	// isPaused means that the worker checks the lock and writes only at the end of the hold.
	isPaused bool
}

// next plans a quick hold for workers with an even number, and a long hold for the others.
func (work *workload) next(worker int, random *rand.Rand) plan {
	if worker%2 == 0 {
		wait := span{work.wait / 10, work.wait}.pick(random)
		next := plan{name: quickName(random), wait: wait, step: work.step}
		if !oneOf(4, random) {
			next.stay = work.hold.pick(random)
		}
		return next
	}
	next := plan{name: "plain:1", wait: work.wait, step: longStep}
	next.stay, next.isPaused = work.long.pick(random), oneOf(8, random)
	return next
}

// quickName returns the lock that is held briefly, or in one of eight cases the lock that is held for long.
func quickName(random *rand.Rand) string {
	if oneOf(8, random) {
		return "plain:1"
	}
	return "plain:0"
}

func oneOf(number int, random *rand.Rand) bool { return random.IntN(number) == 0 }

func (s span) pick(random *rand.Rand) time.Duration {
	return s.from + time.Duration(random.Int64N(int64(s.to-s.from)+1))
}
