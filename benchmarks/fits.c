/* Library that is loaded before glibc.  It counts the bytes of PyTorch's tensors, and refuses
   tensors beyond a limit.

   PyTorch allocates every tensor on a processor by posix_memalign, so the requested bytes are known.
   Pages, free blocks that glibc keeps, and memory of other libraries do not count.  */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

/* Hash table of blocks; a block that was freed keeps its slot, with 0 bytes. */
#define SLOTS (1UL << 20)
static struct { void *block; long bytes; } table[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Bytes of all tensors, and the largest allowed number of these bytes; fits.py reads and sets them. */
long tensors_alive, tensors_limit = LONG_MAX;

/* Return the index of a block's slot, or of the free slot for a new block.  The multiplier spreads
   addresses, which are multiples of 64 (Fibonacci hashing). */
static size_t slot_of(void *block) {
    size_t slot = (uintptr_t)block / 64 * 0x9E3779B97F4A7C15UL % SLOTS;
    while (table[slot].block && table[slot].block != block) slot = (slot + 1) % SLOTS;
    return slot;
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    pthread_mutex_lock(&lock);
    int refused = tensors_alive + (long)size > tensors_limit;
    *block = refused ? NULL : __libc_memalign(alignment, size);
    if (*block) {
        size_t slot = slot_of(*block);
        table[slot].block = *block;
        table[slot].bytes = size;
        tensors_alive += size;
    }
    pthread_mutex_unlock(&lock);
    return *block ? 0 : ENOMEM;
}

void free(void *block) {
    if (!block) return;
    pthread_mutex_lock(&lock);
    size_t slot = slot_of(block);
    if (table[slot].block) {
        tensors_alive -= table[slot].bytes;
        table[slot].bytes = 0;
    }
    pthread_mutex_unlock(&lock);
    __libc_free(block);
}
