"""Computes on every core and yields guesses in batches: under the harness, or in a bare loop as a script.

python computing.py EXAMPLES LENGTH ITERATIONS   prints the seconds that the loop took
"""

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from harness import Attack, Context, Field, Guesses, Params

BATCH = 250
CORES = len(os.sched_getaffinity(0))


class ComputingParams(Params):
    iterations: int = Field(1000, ge=1, description="Work of each core for a batch, in rounds of a hash.")


class Computing(Attack[ComputingParams]):
    name = "computing"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        started = time.perf_counter()
        with ThreadPoolExecutor(CORES) as pool:
            for batch in context.batches(size=BATCH):
                yield computed(batch.ids, context.suffix_length, self.params.iterations, pool)
        print("seconds", time.perf_counter() - started)


def computed(ids: np.ndarray, length: int, iterations: int, pool: ThreadPoolExecutor) -> Guesses:
    """Guesses for `ids`, after each core has hashed for a while with the interpreter let go."""
    list(pool.map(lambda core: hashlib.pbkdf2_hmac("sha256", b"work", bytes([core]), iterations), range(CORES)))
    suffixes = (ids[:, None] * 7919 + np.arange(length) * 31) % 50257
    return Guesses(ids, suffixes.astype(np.uint16), score=(ids * 104729 % 65536) / 65536)


def bare_loop(examples: int, length: int, iterations: int) -> float:
    """Seconds of the same work with nobody to take the guesses."""
    started = time.perf_counter()
    with ThreadPoolExecutor(CORES) as pool:
        for first in range(0, examples, BATCH):
            computed(np.arange(first, min(first + BATCH, examples)), length, iterations, pool)
    return time.perf_counter() - started


if __name__ == "__main__":
    print("seconds", bare_loop(*map(int, sys.argv[1:])))
