"""Functions to compare by speed: an honest baseline, and functions that try to deceive.

A function ``setup_NAME`` is called once before the first call of the function ``NAME``.
"""

import mmap
import os
import threading
import time

import numpy as np

#: Arguments and results are square matrices of this side.
SIDE = 64
WEIGHTS = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
SLEEP_S = 0.02
#: Processor time (s) that ``burn`` uses by default.
BURN_S = 5 * SLEEP_S
#: New pages that ``mapping`` writes to.
PAGES = 500
#: Results and arguments of earlier calls.
memory = {}
#: One item per iteration of the background thread of ``setup_awake``.
ticks = []


def make(seed):
    """Return a random matrix, the argument of all functions."""
    return np.random.default_rng(seed).standard_normal((SIDE, SIDE), dtype=np.float32)


def honest(x):
    """Return the result of a layer with ReLU; the baseline."""
    return np.maximum(x @ WEIGHTS, 0)


def exact(x):
    """Return the honest result in double precision, as a reference."""
    assert x.dtype == np.float64
    return np.maximum(x @ WEIGHTS.astype(np.float64), 0)


def cached_by(key):
    """Return a function that reuses the result of an earlier argument with the same key."""
    return lambda x: memory.setdefault(key(x), honest(x))


cached_by_address = cached_by(lambda x: x.__array_interface__["data"][0])
cached_by_shape = cached_by(lambda x: x.shape)
zeros = np.zeros_like


def cached_by_value(x):
    """Reuse the result of an equal argument; fail if an argument was repeated."""
    assert x.tobytes() not in memory, "an argument was repeated, so the cache could be used"
    return memory.setdefault(x.tobytes(), honest(x))


class lazy:  # noqa: N801 - called as a function
    """Result that is computed when it is read."""

    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        time.sleep(SLEEP_S)
        return honest(self.x)


def setup_clock():
    """Stop the clocks of this process."""
    time.perf_counter_ns = time.perf_counter = time.monotonic = lambda: 0


def clock(x):
    """Sleep while the clocks of this process stand still, then compute."""
    time.sleep(SLEEP_S)
    return honest(x)


def mutating(x):
    """Overwrite the argument."""
    return np.maximum(np.matmul(x, WEIGHTS, out=x), 0)


def aliased(x):
    """Return the result of the previous call."""
    previous = memory.setdefault("buffer", np.zeros_like(x)).copy()
    memory["buffer"][:] = honest(x)
    return previous


def in_a_thread(x):
    """Compute the result in a thread after the call has returned."""
    result, correct = np.zeros_like(x), honest(x)

    def later():
        time.sleep(SLEEP_S)
        result[:] = correct

    threading.Thread(target=later).start()
    return result


def half_precision(x):
    """Round the argument to half precision."""
    return honest(x.astype(np.float16).astype(np.float32))


def skipping(x):
    """Return a wrong result at once if the argument equals that of the previous call."""
    last, memory["last"] = memory.get("last"), x.copy()
    return x if last is not None and np.array_equal(x, last) else honest(x)


def burn(seconds=BURN_S):
    """Use the processor for ``seconds`` of this thread's time."""
    start = time.thread_time()
    while time.thread_time() < start + seconds:
        pass


def slow(x):
    """Use the processor before the computation."""
    burn(2 * SLEEP_S)
    return honest(x)


def many_threads(x):
    """Use the processor in two threads and in a child process, then compute."""
    threads = [threading.Thread(target=burn) for _ in range(2)]
    for thread in threads:
        thread.start()
    if (child := os.fork()) == 0:
        burn()
        os._exit(0)
    os.waitpid(child, 0)
    for thread in threads:
        thread.join()
    return honest(x)


def setup_awake():
    """Start a thread that counts while this process is not stopped."""

    def tick():
        while True:
            time.sleep(0.001)
            ticks.append(None)

    threading.Thread(target=tick, daemon=True).start()


def awake(x):
    """Fail if this process was running while ``asleep`` was called in another process."""
    assert len(ticks) - memory.get("ticks", len(ticks)) < 100, "the process was not stopped"
    memory["ticks"] = len(ticks)
    return honest(x)


def asleep(x):
    """Sleep before the computation."""
    time.sleep(10 * SLEEP_S)
    return honest(x)


def mapping(x):
    """Write a byte to each of ``PAGES`` new pages, then compute."""
    pages = mmap.mmap(-1, PAGES * mmap.PAGESIZE)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    for number in range(PAGES):
        pages[number * mmap.PAGESIZE] = 1
    return honest(x)


def dying(x):
    """End the process."""
    os._exit(3)


def other_shape(x):
    """Return a row less than the honest result."""
    return honest(x)[1:]


def total(x):
    """Return a number of NumPy and two of Python instead of a matrix."""
    return x.sum(dtype=np.float64), float(x[0, 0]), x.shape[0]


def constant(x):
    """Return the same result for all arguments."""
    return np.ones(SIDE)


def same_arguments(seed):
    """Return the same argument for all seeds, unlike ``make``."""
    return make(0)
