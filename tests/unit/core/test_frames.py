"""Frames can be split into any chunks, and damaged or invalid frames are refused."""

import contextlib
import math
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.frames import MAX_BODY_BYTES, Frame, FrameError, FrameReader, encode_frame

PROLOGUE = struct.Struct("<4sQIQI")
DTYPES = [np.dtype(name) for name in ("u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f4", "<f8", ">u2", ">f8")]
names = st.text('ab"é\x01\u2028', max_size=5)
scalars = st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.floats(allow_nan=False) | names


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    rows = draw(st.integers(0, 5))
    columns = {}
    for name in draw(st.lists(names, max_size=3, unique=True)):
        shape = (rows, *draw(st.lists(st.integers(0, 3), max_size=2)))
        dtype = draw(st.sampled_from(DTYPES))
        size = dtype.itemsize * math.prod(shape)
        columns[name] = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)
    return Frame(draw(names), rows, columns, draw(st.dictionaries(names, scalars, max_size=3)))


def _is_equal(frame: Frame, other: Frame) -> bool:
    return (
        (frame.table, frame.rows, dict(frame.fields)) == (other.table, other.rows, dict(other.fields))
        and list(frame.columns) == list(other.columns)
        and all(
            np.array_equal(column, other.columns[name], equal_nan=column.dtype.kind == "f")
            and column.shape == other.columns[name].shape
            for name, column in frame.columns.items()
        )
    )


@given(st.lists(frames(), max_size=4), st.data())
def test_frames_survive_any_chunking(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(encode_frame(frame, number) for number, frame in enumerate(sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader, received = FrameReader(), []
    for first, last in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += reader.feed(stream[first:last])
    assert [sequence for sequence, _, _ in received] == list(range(len(sent)))
    assert sum(size for _, size, _ in received) == len(stream)
    assert all(_is_equal(frame, other) for frame, (_, _, other) in zip(sent, received, strict=True))


@given(frames(), st.data())
def test_a_changed_byte_is_detected(frame: Frame, data: st.DataObject) -> None:
    damaged = bytearray(encode_frame(frame, 0))
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    received = []
    with contextlib.suppress(FrameError):
        received += FrameReader().feed(bytes(damaged))
    assert received == []


@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_an_error(content: bytes) -> None:
    with contextlib.suppress(FrameError):
        assert list(FrameReader().feed(content)) == []


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_header_with_a_valid_checksum_is_a_frame_or_an_error(header: bytes, body: bytes) -> None:
    stream = PROLOGUE.pack(b"HXF1", 0, len(header), len(body), zlib.crc32(body, zlib.crc32(header)))
    with contextlib.suppress(FrameError):
        list(FrameReader().feed(stream + header + body))


@pytest.mark.parametrize(
    "header",
    [
        b"null",
        b"[]",
        b"{}",
        b'{"table":1,"rows":0,"columns":[],"fields":{}}',
        b'{"table":"t","rows":true,"columns":[],"fields":{}}',
        b'{"table":"t","rows":-1,"columns":[],"fields":{}}',
        b'{"table":"t","rows":1e3,"columns":[],"fields":{}}',
        b'{"table":"t","rows":1,"columns":[["a","O",[]]],"fields":{}}',
        b'{"table":"t","rows":1,"columns":[["a","u1",[-1]]],"fields":{}}',
        b'{"table":"t","rows":1,"columns":[["a","u1",[67108864,67108864]]],"fields":{}}',
        b'{"table":"t","rows":67108864,"columns":[["a","f8",[67108864,67108864,67108864]]],"fields":{}}',
        b'{"table":"t","rows":1,"columns":[["a","u1",[1,1,1,1,1]]],"fields":{}}',
        b'{"table":"t","rows":1,"columns":[["a","u1"]],"fields":{}}',
        b'{"table":"t","rows":0,"columns":[],"fields":{"a":[]}}',
        b'{"table":"t","rows":0,"columns":[],"fields":{"a":"\\ud800"}}',
        b'{"table":"t","rows":0,"columns":[],"fields":{"a\\u0000":1}}',
        b'{"table":"\\udfff","rows":0,"columns":[],"fields":{}}',
        b'{"table":"t","rows":0,"columns":[["\\u0000","u1",[]]],"fields":{}}',
        b"[" * 60_000,
    ],
)
def test_an_invalid_header_is_an_error(header: bytes) -> None:
    stream = PROLOGUE.pack(b"HXF1", 0, len(header), 0, zlib.crc32(header)) + header
    with pytest.raises(FrameError):
        list(FrameReader().feed(stream))


def test_a_huge_size_is_refused_before_memory_is_allocated() -> None:
    tracemalloc.start()
    for header, body in ((1 << 31, 0), (10, MAX_BODY_BYTES + 1), (10, 1 << 62)):
        with pytest.raises(FrameError, match="claims"):
            list(FrameReader().feed(PROLOGUE.pack(b"HXF1", 0, header, body, 0)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_frames_before_the_damage_are_returned() -> None:
    stream = encode_frame(Frame("a"), 0) + encode_frame(Frame("b"), 1) + b"rubbish"
    received = []
    with pytest.raises(FrameError, match="bytes that do not begin a frame"):
        for _, _, frame in FrameReader().feed(stream):
            received.append(frame.table)
    assert received == ["a", "b"]


def test_a_frame_out_of_order_is_an_error() -> None:
    reader = FrameReader()
    assert len(list(reader.feed(encode_frame(Frame("a"), 0)))) == 1
    with pytest.raises(FrameError, match="frame 0 instead of 1"):
        list(reader.feed(encode_frame(Frame("a"), 0)))


@pytest.mark.parametrize("column", [np.array(["text"]), np.array([None]), np.zeros(1, np.int16), np.zeros(2)])
def test_unsupported_dtypes_are_refused_when_encoded(column: np.ndarray) -> None:
    with pytest.raises(FrameError):
        encode_frame(Frame("a", 1, {"c": column}), 0)
