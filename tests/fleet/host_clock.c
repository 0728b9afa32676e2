/*
 * A preloaded library of the test bed. The time of day of a process is off by what the file named by HOST_CLOCK
 * says: nanoseconds ahead, since when on the monotonic clock, and how many parts per million it gains from then on.
 * The monotonic clock stays right.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *off;

__attribute__((constructor)) static void open_clock(void)
{
    const char *path = getenv("HOST_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *mapped;

    if (file < 0)
        return;
    mapped = mmap(NULL, 3 * sizeof *off, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        off = mapped;
    close(file);
}

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;

    syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static int64_t time_of_day(void)
{
    int64_t now = read_clock(CLOCK_REALTIME);

    if (off == NULL)
        return now;
    return now + off[0] + (read_clock(CLOCK_MONOTONIC) - off[1]) / 1000000 * off[2];
}

int clock_gettime(clockid_t clock, struct timespec *answer)
{
    int64_t now;

    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, answer);
    now = time_of_day();
    answer->tv_sec = now / SECOND;
    answer->tv_nsec = now % SECOND;
    return 0;
}

int gettimeofday(struct timeval *restrict answer, void *restrict zone)
{
    int64_t now = time_of_day();

    (void)zone;
    answer->tv_sec = now / SECOND;
    answer->tv_usec = now % SECOND / 1000;
    return 0;
}

time_t time(time_t *answer)
{
    time_t now = time_of_day() / SECOND;

    if (answer != NULL)
        *answer = now;
    return now;
}
