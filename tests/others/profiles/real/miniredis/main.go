// Serves miniredis until its input ends, on the port that it is given.
package main

import (
	"io"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// miniredis has no clock for what expires: its user moves the time on.
const tick = 10 * time.Millisecond

func main() {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:" + os.Args[1]); err != nil {
		panic(err)
	}
	go func() {
		last := time.Now()
		for now := range time.Tick(tick) {
			server.FastForward(now.Sub(last).Truncate(time.Millisecond))
			last = last.Add(now.Sub(last).Truncate(time.Millisecond))
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}
