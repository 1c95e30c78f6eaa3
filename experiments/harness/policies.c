/* Which blocks a program takes from glibc's allocator, and what the system maps for it.

   Loaded before glibc, it stands between a program and posix_memalign, malloc and free.  Of blocks
   of 64 KiB and more it notes the size, the time inside glibc, and how much more memory glibc holds
   of the system afterwards, in its heap and in blocks mapped by themselves.  It follows glibc's own
   rule for returning memory (mallopt(3)) from the start of the process: the threshold for mapping a
   block by itself rises to the largest such block that was freed, up to 32 MiB, and the free top of
   the heap is returned where it exceeds twice that. */

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
