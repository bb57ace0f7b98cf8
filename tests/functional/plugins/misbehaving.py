"""An attack that yields a few valid guesses, and then fails in a given way."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness import Attack, Context, Field, Guesses, Params
from harness.core.errors import HarnessError, Interruption

HOSTILE = "\x1b[31mred\x1b]0;title\x07 [/bold] [/\nnext line\u202e \ud800"


class MisbehavingParams(Params):
    action: str = Field(description="Method to call.")


class InvalidMessage(Exception):
    def __str__(self) -> str:
        raise ValueError


class ExitInMessage(HarnessError):
    def __str__(self) -> str:
        sys.exit(3)


class ExitCode:
    def __repr__(self) -> str:
        raise KeyboardInterrupt


class Misbehaving(Attack[MisbehavingParams]):
    name = "misbehaving"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        if self.params.action == "sleep":
            time.sleep(600)
        yield from self._valid(context)
        yield from getattr(self, f"_{self.params.action}")(context) or ()

    def _valid(self, context: Context) -> Iterator[Guesses]:
        yield Guesses(context.ids[:5], context.prefixes[:5, : context.suffix_length], np.arange(5))

    def _raises(self, context: Context) -> None:
        raise ValueError("an error")

    def _hostile_words(self, context: Context) -> None:
        raise RuntimeError(HOSTILE)

    def _long_words(self, context: Context) -> None:
        raise HarnessError("x" * 300_000)

    def _invalid_message(self, context: Context) -> None:
        raise InvalidMessage

    def _exit_in_message(self, context: Context) -> None:
        class Unprintable(RuntimeError):
            __str__ = ExitInMessage.__str__

        raise Unprintable

    def _exit_in_harness_error(self, context: Context) -> None:
        raise ExitInMessage

    def _exit_with_hostile_code(self, context: Context) -> None:
        sys.exit(ExitCode())

    def _finishes_itself(self, context: Context) -> Iterator[Guesses]:
        with open(f"/proc/self/fd/{sys.argv[2]}", "wb", buffering=0) as commands:
            commands.write(b"finish\n")
        for batch in context.batches(trials=100, size=1):
            time.sleep(0.02)
            yield Guesses(batch.ids, batch.prefixes[:, : context.suffix_length], batch.ids)

    def _interrupted(self, context: Context) -> None:
        raise Interruption("the user pressed a key.")

    def _hostile_log(self, context: Context) -> None:
        os.write(2, b"x" * 5_000_000 + b"\na \x1b[31mred\x1b[0m " + b"x" * 300 + b"\n\n")
        os._exit(1)

    def _segfault_signal(self, context: Context) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def _segfault(self, context: Context) -> None:
        ctypes.string_at(8)

    def _killed(self, context: Context) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _silent_exit(self, context: Context) -> None:
        os._exit(0)

    def _sys_exit(self, context: Context) -> None:
        sys.exit(0)

    def _binary_output(self, context: Context) -> None:
        os.write(1, bytes(range(256)) * 4000)
        os.write(2, np.random.default_rng(0).bytes(1 << 20))

    def _flood(self, context: Context) -> Iterator[Guesses]:
        chunk = (b"flood " * 170 + b"\n") * 1024
        left = 1 << 30
        while left > 0:
            left -= os.write(1, chunk)
        print("the last line", flush=True)
        yield Guesses(context.ids[5:6], context.prefixes[5:6, : context.suffix_length], [9.0])

    def _wrong_id(self, context: Context) -> Iterator[Guesses]:
        yield Guesses([len(context.ids)], context.prefixes[:1, : context.suffix_length], [0.0])

    def _infinite(self, context: Context) -> Iterator[Guesses]:
        suffixes = context.prefixes[:2, : context.suffix_length]
        yield Guesses([6, 7], suffixes, [float("inf"), float("-inf")])

    def _no_guesses(self, context: Context) -> Iterator[object]:
        yield "a string"

    def _two_stages(self, context: Context) -> Iterator[Guesses]:
        for _ in range(2):
            for batch in context.batches():
                yield Guesses(batch.ids, batch.prefixes[:, : context.suffix_length], batch.ids)

    def _thread_that_stays(self, context: Context) -> None:
        threading.Thread(target=time.sleep, args=(600,)).start()

    def _forked_child_that_emits(self, context: Context) -> Iterator[Guesses]:
        if os.fork() == 0:
            yield Guesses(context.ids[8:9], context.prefixes[8:9, : context.suffix_length], [5.0])
            os._exit(0)
        os.wait()
        yield Guesses(context.ids[9:10], context.prefixes[9:10, : context.suffix_length], [5.0])

    def _locked_folder(self, context: Context) -> None:
        inside = Path("locked/inside")
        inside.mkdir(parents=True)
        inside.chmod(0)
        inside.parent.chmod(0)
