/* A wall clock that a test can set forward: preloaded into a server, with the name of a file of
 * eight bytes in CLOCK_OFFSET, the microseconds to add. The monotonic clock stays as it is.
 *
 * libfaketime does not get along with the allocator of redis-server. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset_us;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("CLOCK_OFFSET");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *map = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
  if (map == MAP_FAILED) {
    abort();
  }
  offset_us = map;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (!failed && is_wall && offset_us) {
    int64_t us = now->tv_sec * INT64_C(1000000) + now->tv_nsec / 1000 + *offset_us;
    now->tv_nsec = us % 1000000 * 1000 + now->tv_nsec % 1000;
    now->tv_sec = us / 1000000;
  }
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec wall;
  (void)zone;
  int failed = clock_gettime(CLOCK_REALTIME, &wall);
  now->tv_sec = wall.tv_sec;
  now->tv_usec = wall.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *out) {
  struct timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  if (out) {
    *out = wall.tv_sec;
  }
  return wall.tv_sec;
}
