// Tells a test which bytes of each file are on the disk, and moves the server's clock.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *ahead; // microseconds, in a file of 8 bytes
static int notes = -1;

__attribute__((constructor)) static void begin(void) {
    int clock = open(getenv("MR_CLOCK"), O_RDWR);
    if (clock >= 0) {
        void *at = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, clock, 0);
        if (at != MAP_FAILED) ahead = at;
        close(clock);
    }
    notes = open(getenv("MR_SYNCED"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

// sync_with notes the size of a file before its sync, once that has ended: "SIZE PATH".
static int sync_with(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat now;
    int known = fstat(fd, &now) == 0;
    int result = real(fd);
    if (result == 0 && known && notes >= 0) {
        char link[64], path[3000], line[3100];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        if (n > 0) {
            path[n] = 0;
            int length = snprintf(line, sizeof line, "%lld %s\n", (long long)now.st_size, path);
            if (write(notes, line, length) != length) abort();
        }
    }
    return result;
}

int fsync(int fd) { return sync_with("fsync", fd); }
int fdatasync(int fd) { return sync_with("fdatasync", fd); }

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long long us = now.tv_sec * 1000000LL + now.tv_nsec / 1000 + (ahead ? *ahead : 0);
    tv->tv_sec = us / 1000000;
    tv->tv_usec = us % 1000000;
    return 0;
}
