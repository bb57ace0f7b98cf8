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

    def _huge_length(self, context: Context, pipe: int) -> None:
        os.write(pipe, struct.pack("<4sQIQI", b"HXF1", 3, 1 << 31, 1 << 60, 0))

    def _negative_length(self, context: Context, pipe: int) -> None:
        os.write(pipe, struct.pack("<4sQiqI", b"HXF1", 3, -1, -1, 0))

    def _four_gigabytes(self, context: Context, pipe: int) -> None:
        os.write(pipe, struct.pack("<4sQIQI", b"HXF1", 3, 2, 1 << 32, 0))

    def _pickled(self, context: Context, pipe: int) -> None:
        os.write(pipe, pickle.dumps(("HXF1", Exploding())))

    def _pickled_column(self, context: Context, pipe: int) -> None:
        body = pickle.dumps(Exploding())
        column = ["ids", "O", []]
        header = json.dumps({"table": "guess", "rows": 1, "columns": [column], "fields": {"key": ""}}).encode()
        checksum = zlib.crc32(body, zlib.crc32(header))
        os.write(pipe, struct.pack("<4sQIQI", b"HXF1", 3, len(header), len(body), checksum) + header + body)

    def _truncated(self, context: Context, pipe: int) -> None:
        os.write(pipe, encode_frame(Frame("event", fields={"name": "started"}), 3)[:-5])
        os._exit(0)

    def _same_sequence(self, context: Context, pipe: int) -> None:
        frame = encode_frame(Frame("event", fields={"name": "started"}), 3)
        os.write(pipe, frame + frame)

    def _interleaved(self, context: Context, pipe: int) -> None:
        frame = encode_frame(Frame("event", fields={"name": "started"}), 3)
        os.write(pipe, frame[:40])
        if os.fork() == 0:
            os.write(pipe, frame[:40])
            os._exit(0)
        os.wait()
        os.write(pipe, frame[40:])

    def _wrong_sequence(self, context: Context, pipe: int) -> None:
        os.write(pipe, encode_frame(Frame("event", fields={"name": "started"}), 1000))

    def _wrong_checksum(self, context: Context, pipe: int) -> None:
        frame = bytearray(encode_frame(Frame("event", fields={"name": "started"}), 3))
        frame[-1] ^= 1
        os.write(pipe, frame)

    def _unknown_table(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("ledger", fields={"entry": "end", "spent": 0.0}))

    def _wrong_column(self, context: Context, pipe: int) -> None:
        columns = {
            "example": np.zeros(1),
            "suffix": np.zeros((1, context.suffix_length)),
            "score": np.zeros(1),
            "trial": np.zeros(1),
        }
        self._send(pipe, Frame("guess", 1, columns, {"key": ""}))

    def _unknown_batch(self, context: Context, pipe: int) -> None:
        columns = {
            "example": np.zeros(1, np.int64),
            "suffix": np.zeros((1, context.suffix_length), np.uint16),
            "score": np.zeros(1),
            "trial": np.zeros(1, np.int64),
        }
        self._send(pipe, Frame("guess", 1, columns, {"key": "never begun"}))

    def _nan_score(self, context: Context, pipe: int) -> None:
        columns = {
            "example": np.zeros(1, np.int64),
            "suffix": np.zeros((1, context.suffix_length), np.uint16),
            "score": np.full(1, np.nan),
            "trial": np.zeros(1, np.int64),
        }
        self._send(pipe, Frame("guess", 1, columns, {"key": ""}))

    def _wrong_id(self, context: Context, pipe: int) -> None:
        columns = {
            "example": np.full(1, 1 << 63, np.uint64),
            "suffix": np.zeros((1, context.suffix_length), np.uint16),
            "score": np.zeros(1),
            "trial": np.zeros(1, np.int64),
        }
        self._send(pipe, Frame("guess", 1, columns, {"key": ""}))

    def _deep_header(self, context: Context, pipe: int) -> None:
        header = b"[" * 60_000
        os.write(pipe, struct.pack("<4sQIQI", b"HXF1", 3, len(header), 0, zlib.crc32(header)) + header)

    def _endless_events(self, context: Context, pipe: int) -> None:
        sequence = 3
        while True:
            fields = {"name": "started", "filling": "x" * 60_000}
            write_all(pipe, encode_frame(Frame("event", fields=fields), sequence))
            sequence += 1

    def _bare_target(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("event", fields={"name": "target", "rows_at_once": 3}))

    def _endless_target(self, context: Context, pipe: int) -> None:
        words = ("architecture", "device", "device_name", "dtype", "torch", "transformers")
        counts = ("vocabulary", "context_length", "rows_at_once", "threads")
        fields = dict.fromkeys(words, "x") | dict.fromkeys(counts, 1) | {"parameters": float("inf")}
        self._send(pipe, Frame("event", fields={"name": "target", **fields}))

    def _many_stages(self, context: Context, pipe: int) -> None:
        for number in range(100_000):
            fields = {"stage": f"stage {number}", "weight": 1.0, "draw_weight": 1.0, "is_announced": True}
            write_all(pipe, encode_frame(Frame("plan", fields=fields), 3 + number))

    def _many_events(self, context: Context, pipe: int) -> None:
        for number in range(100_000):
            write_all(pipe, encode_frame(Frame("event", fields={"name": "started"}), 3 + number))

    def _many_arrays(self, context: Context, pipe: int) -> None:
        for number in range(100_000):
            fields = {"name": str(number), "shape": "0", "dtype": "|u1"}
            write_all(pipe, encode_frame(Frame("kept", 0, {"data": np.zeros(0, np.uint8)}, fields), 3 + number))

    def _long_stage(self, context: Context, pipe: int) -> None:
        fields = {"stage": "x" * 60_000, "weight": 1.0, "draw_weight": 1.0, "is_announced": True}
        self._send(pipe, Frame("plan", fields=fields))

    def _long_key(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("done", fields={"key": "x" * 60_000}))

    def _long_column(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("guess", 1, {"x" * 60_000: np.zeros(1)}))

    def _half_a_character(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("begin", fields={"key": "\ud800", "weight": 1.0}))

    def _half_a_character_in_a_name(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("begin", fields={"key": "x", "weight": 1.0, "\udfff": 1}))

    def _half_a_character_in_a_table(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("\ud800"))

    def _half_a_character_in_a_column(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("guess", 1, {"\ud800": np.zeros(1)}, {"key": ""}))

    def _zero_character(self, context: Context, pipe: int) -> None:
        self._send(pipe, Frame("begin", fields={"key": "a\0b", "weight": 1.0}))

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
