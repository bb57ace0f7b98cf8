"""An attack that writes forged frames to the pipe of its guesses."""

import json
import os
import pickle
import stat
import struct
import sys
import time
import zlib
from collections.abc import Iterator

import numpy as np

from harness import Attack, Context, Field, Guesses, Params
from harness.core.files import write_all
from harness.core.frames import Frame, encode_frame


class Exploding:
    """An object that creates a file in `/` when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch /exploded",)


class ForgingParams(Params):
    action: str = Field(description="Method that writes to the pipe.")


class Forging(Attack[ForgingParams]):
    name = "forging"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        yield Guesses(context.ids[:5], context.prefixes[:5, : context.suffix_length], np.arange(5))
        pipe = int(sys.argv[1])
        assert stat.S_ISFIFO(os.fstat(pipe).st_mode)
        getattr(self, f"_{self.params.action}")(context, pipe)
        time.sleep(600)

    def _rubbish(self, context: Context, pipe: int) -> None:
        os.write(pipe, b"\xff" * 1000)

    def _pickled_column(self, context: Context, pipe: int) -> None:
        body = pickle.dumps(Exploding())
        column = ["ids", "O", []]
        header = json.dumps({"table": "guess", "rows": 1, "columns": [column], "fields": {"key": ""}}).encode()
        checksum = zlib.crc32(body, zlib.crc32(header))
        os.write(pipe, struct.pack("<4sQIQI", b"HXF1", 3, len(header), len(body), checksum) + header + body)

    def _truncated(self, context: Context, pipe: int) -> None:
        os.write(pipe, encode_frame(Frame("event", fields={"name": "started"}), 3)[:-5])
        os._exit(0)

    def _interleaved(self, context: Context, pipe: int) -> None:
        frame = encode_frame(Frame("event", fields={"name": "started"}), 3)
        os.write(pipe, frame[:40])
        if os.fork() == 0:
            os.write(pipe, frame[:40])
            os._exit(0)
        os.wait()
        os.write(pipe, frame[40:])

    def _endless_events(self, context: Context, pipe: int) -> None:
        sequence = 3
        while True:
            fields = {"name": "started", "filling": "x" * 60_000}
            write_all(pipe, encode_frame(Frame("event", fields=fields), sequence))
            sequence += 1

    def _bare_target(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("event", fields={"name": "target", "rows_at_once": 3}))

    def _many_stages(self, context: Context, pipe: int) -> None:
        for number in range(100_000):
            fields = {"stage": f"stage {number}", "weight": 1.0, "draw_weight": 1.0, "is_announced": True}
            write_all(pipe, encode_frame(Frame("plan", fields=fields), 3 + number))

    def _half_a_character(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("begin", fields={"key": "\ud800", "weight": 1.0}))

    def _forked_child(self, context: Context, pipe: int) -> None:
        for _ in range(4):
            if os.fork() == 0:
                while True:
                    os.write(pipe, os.urandom(100))

    def _after_the_end(self, context: Context, pipe: int) -> None:
        end = encode_frame(Frame("end", fields={"cut_short": False}), 3)
        os.write(pipe, end + encode_frame(Frame("event", fields={"name": "started"}), 4))

    def _only_the_end(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("end", fields={"cut_short": False}))

    def _close(self, context: Context, pipe: int) -> None:
        os.close(pipe)

    def _close_and_reuse(self, context: Context, pipe: int) -> None:
        os.dup2(os.open("elsewhere", os.O_RDWR | os.O_CREAT), pipe)

    def _send(self, pipe: int, frame: Frame) -> None:
        # Three frames were sent before: started, begin, guess.
        write_all(pipe, encode_frame(frame, 3))
