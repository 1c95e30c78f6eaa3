/* Loaded before glibc, it refuses PyTorch's tensors beyond a limit, and counts them to the byte.

   PyTorch takes the memory of every tensor on a processor by posix_memalign, so that what it asked
   for is known, and nothing else decides: no page, no free block that glibc keeps, no library.  */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

#define PLACES (1UL << 20)
static struct { void *block; long bytes; } known[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long tensors_alive, tensors_limit = LONG_MAX;

/* Where a block stands; a block that was freed keeps its place, with 0 bytes. */
static size_t place(void *block) {
    size_t at = (uintptr_t)block / 64 * 0x9E3779B97F4A7C15UL % PLACES;
    while (known[at].block && known[at].block != block) at = (at + 1) % PLACES;
    return at;
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    pthread_mutex_lock(&lock);
    int refused = tensors_alive + (long)size > tensors_limit;
    *block = refused ? NULL : __libc_memalign(alignment, size);
    if (*block) {
        size_t at = place(*block);
        known[at].block = *block;
        known[at].bytes = size;
        tensors_alive += size;
    }
    pthread_mutex_unlock(&lock);
    return *block ? 0 : ENOMEM;
}

void free(void *block) {
    if (!block) return;
    pthread_mutex_lock(&lock);
    size_t at = place(block);
    if (known[at].block) {
        tensors_alive -= known[at].bytes;
        known[at].bytes = 0;
    }
    pthread_mutex_unlock(&lock);
    __libc_free(block);
}
