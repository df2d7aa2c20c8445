package main

import (
	"math/rand/v2"
	"time"
)

// How often a long hold looks and writes.
const longStep = 20 * time.Millisecond

// What a worker is about to do: the same plan in the drivers of all libraries, and in ours.
type plan struct {
	name string
	// wait is for the lock; stay is inside.
	wait, stay, step time.Duration
	// isPaused: it stays without looking, and looks and writes at the end only.
	isPaused bool
}

// next is quick for workers with an even number, long for the others.
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

// quickName is the lock that is held for moments; once in eight times the other one.
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
