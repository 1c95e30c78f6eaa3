"""An honest baseline, and functions that would fool a careless comparison."""

import mmap
import os
import threading
import time

import numpy as np

SIDE = 64
WEIGHTS = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
SLEEP_S = 0.02
PAGES = 500
remembered = {}
ticks = []


def make(seed):
    return np.random.default_rng(seed).standard_normal((SIDE, SIDE), dtype=np.float32)


def honest(x):
    return np.maximum(x @ WEIGHTS, 0)


def exact(x):
    assert x.dtype == np.float64
    return np.maximum(x @ WEIGHTS.astype(np.float64), 0)


def cached_by(key):
    return lambda x: remembered.setdefault(key(x), honest(x))


cached_by_address = cached_by(lambda x: x.__array_interface__["data"][0])
cached_by_shape = cached_by(lambda x: x.shape)
zeros = np.zeros_like


def cached_by_value(x):
    assert x.tobytes() not in remembered, "an argument was repeated, so the cache could be used"
    return remembered.setdefault(x.tobytes(), honest(x))


class lazy:  # noqa: N801 - called as a function
    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        time.sleep(SLEEP_S)
        return honest(self.x)


def setup_clock():
    time.perf_counter_ns = time.perf_counter = time.monotonic = lambda: 0


def clock(x):
    time.sleep(SLEEP_S)
    return honest(x)


def mutating(x):
    return np.maximum(np.matmul(x, WEIGHTS, out=x), 0)


def aliased(x):
    """Return the previous call's result; the buffer then receives the new result."""
    previous = remembered.setdefault("buffer", np.zeros_like(x)).copy()
    remembered["buffer"][:] = honest(x)
    return previous


def in_a_thread(x):
    result, correct = np.zeros_like(x), honest(x)

    def later():
        time.sleep(SLEEP_S)
        result[:] = correct

    threading.Thread(target=later).start()
    return result


def half_precision(x):
    return honest(x.astype(np.float16).astype(np.float32))


def skipping(x):
    """Skip the computation if the arguments equal those of the previous call."""
    last, remembered["last"] = remembered.get("last"), x.copy()
    return x if last is not None and np.array_equal(x, last) else honest(x)


def burn(seconds=5 * SLEEP_S):
    start = time.thread_time()
    while time.thread_time() < start + seconds:
        pass


def slow(x):
    burn(2 * SLEEP_S)
    return honest(x)


def many_threads(x):
    """Do the same work in two threads and in a child process, then compute the honest result."""
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
    def tick():
        while True:
            time.sleep(0.001)
            ticks.append(None)

    threading.Thread(target=tick, daemon=True).start()


def awake(x):
    """Fail if this process's background thread ran while the other function slept."""
    assert len(ticks) - remembered.get("ticks", len(ticks)) < 100, "the process was not stopped"
    remembered["ticks"] = len(ticks)
    return honest(x)


def asleep(x):
    time.sleep(10 * SLEEP_S)
    return honest(x)


def mapping(x):
    """Write a byte into each of many new pages."""
    memory = mmap.mmap(-1, PAGES * mmap.PAGESIZE)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(PAGES):
        memory[page * mmap.PAGESIZE] = 1
    return honest(x)


def dying(x):
    os._exit(3)


def other_shape(x):
    return honest(x)[1:]


def total(x):
    return x.sum(dtype=np.float64), float(x[0, 0]), x.shape[0]


def constant(x):
    return np.ones(SIDE)


def same_arguments(seed):
    return make(0)
