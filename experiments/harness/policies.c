/* Record the blocks that a program allocates with glibc, and the memory that the system maps.

   The library is loaded before glibc and calls glibc's posix_memalign, malloc and free.  For each
   block of 64 KiB or more it records the size, the time inside glibc, and the change of the memory
   that glibc holds: its heap and the separately mapped blocks.  It also computes glibc's mapping
   threshold (mallopt(3)) since the start of the process: the threshold rises to the largest freed
   block that was mapped separately, up to 32 MiB.  glibc returns the free top of its heap to the
   system above twice this threshold. */

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 65536, LARGEST_THRESHOLD = 32 << 20 };
struct event { long bytes, change, nanoseconds; };
struct event trace_events[EVENTS];
int trace_count, trace_on;
long trace_mmap_threshold = 128 << 10;

void *__libc_malloc(size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static long held(void) { return (long)sbrk(0) + (long)mallinfo2().hblkhd; }

#define TRACED(size, action) do { \
    if (!trace_on || (size) < LARGE || trace_count == EVENTS) { action; break; } \
    long before = held(), start = now(); \
    action; \
    long end = now(); \
    trace_events[trace_count++] = (struct event){bytes, held() - before, end - start}; \
} while (0)

void *malloc(size_t size) {
    long bytes = size;
    void *block;
    TRACED(size, block = __libc_malloc(size));
    return block;
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    long bytes = size;
    TRACED(size, *block = __libc_memalign(alignment, size));
    return *block ? 0 : ENOMEM;
}

void free(void *block) {
    if (!block) return;
    size_t header = ((size_t *)block)[-1], size = malloc_usable_size(block);
    long bytes = -(long)size, mapped = header & ~7UL;
    if (header & 2 && mapped > trace_mmap_threshold && mapped <= LARGEST_THRESHOLD)
        trace_mmap_threshold = mapped;
    TRACED(size, __libc_free(block));
}
