package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// fields are the fields of an event besides its time, process, worker and lock.
type fields map[string]any

// history writes events to standard output, one per line, without delay.
type history struct {
	process int
	guard   sync.Mutex
	out     *bufio.Writer
}

// record writes an event. It reads the clocks first.
func (h *history) record(worker int, name, event string, more fields) {
	at, wall := monotonic(), time.Now().UnixNano()
	line := fields{"at": at, "wall": wall, "process": h.process, "worker": worker, "event": event}
	if name != "" {
		line["name"] = name
	}
	for field, value := range more {
		line[field] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		fail(err)
	}
	h.guard.Lock()
	defer h.guard.Unlock()
	h.out.Write(text)
	h.out.WriteByte('\n')
	if err := h.out.Flush(); err != nil {
		fail(err)
	}
}

// monotonic is CLOCK_MONOTONIC, which all processes of the machine share.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		fail(err)
	}
	return now.Nano()
}

// onSharedClock converts a time of Go's clock to the clock that all processes share.
func onSharedClock(instant time.Time) int64 {
	return monotonic() + time.Until(instant).Nanoseconds()
}

// sample records the resource usage of the process every second.
func sample(events *history) {
	for ; ; time.Sleep(time.Second) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			fail(err)
		}
		descriptors, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			fail(err)
		}
		events.record(0, "", "sample", fields{
			"rss_kib":     statusNumber(string(status), "VmRSS:"),
			"threads":     statusNumber(string(status), "Threads:"),
			"descriptors": len(descriptors),
		})
	}
}

func statusNumber(status, name string) int {
	_, rest, _ := strings.Cut(status, "\n"+name)
	number, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		fail(err)
	}
	return number
}
