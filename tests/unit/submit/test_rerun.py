"""Prefixes, rules and scores of a bundle's run are read, and invalid files are refused."""

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.arrays import tokens_sha256
from harness.core.errors import HarnessError
from harness.submit.judging import read_prefixes
from harness.submit.rerun import read_round_rules, read_scores

ROWS = np.array([[1, 2, 3], [40, 50, 99], [0, 0, 0]])


def _read(path: Path, length: int = 3, vocabulary: int = 100) -> np.ndarray:
    return read_prefixes(path, length=length, vocabulary=vocabulary)


def _refused(path: Path, words: str) -> None:
    with pytest.raises(HarnessError, match=words) as refusal:
        _read(path)
    assert path.name in str(refusal.value)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int64, np.uint64, ">i4"])
def test_any_integer_dtype_and_order_is_read(dtype: str, order: Literal["C", "F"], tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", ROWS.astype(dtype, order=order))
    np.savez(tmp_path / "p.npz", ROWS.astype(dtype, order=order))
    for name in ("p.npy", "p.npz"):
        assert _read(tmp_path / name).tolist() == ROWS.tolist()
        assert _read(tmp_path / name).dtype == np.uint16


def test_the_array_named_prefixes_is_read(tmp_path: Path) -> None:
    names = np.array([{"not": "plain"}], dtype=object)
    np.savez(tmp_path / "p.npz", suffixes=ROWS + 1, prefixes=ROWS, names=names)
    assert _read(tmp_path / "p.npz").tolist() == ROWS.tolist()


@given(rows=st.lists(st.lists(st.integers(0, 50256), min_size=4, max_size=4), min_size=1, max_size=20))
@settings(deadline=None, max_examples=25)
def test_every_form_gives_the_same_tokens_and_hash(rows: list[list[int]], tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("forms")
    np.save(folder / "p.npy", np.array(rows, np.uint16))
    np.savez_compressed(folder / "p.npz", prefixes=np.array(rows, np.int64))
    read = [_read(folder / name, 4, 50257) for name in ("p.npy", "p.npz")]
    assert all(one.tolist() == rows and one.dtype == np.uint16 for one in read)
    assert len({tokens_sha256(one, 50257) for one in read}) == 1


def test_the_hash_is_of_little_endian_tokens() -> None:
    assert tokens_sha256(np.array([[1, 258]]), 50257) == hashlib.sha256(b"\x01\x00\x02\x01").hexdigest()
    assert tokens_sha256(np.array([[1]], ">u2"), 1 << 17) == hashlib.sha256(b"\x01\x00\x00\x00").hexdigest()


def _npy(folder: Path, array: np.ndarray) -> Path:
    np.save(folder / "p.npy", array, allow_pickle=True)
    return folder / "p.npy"


@pytest.mark.parametrize(
    "array",
    [
        *(ROWS.astype(float), ROWS[0], ROWS[None], ROWS[:, :2], ROWS - 1, ROWS + 1, ROWS > 0, ROWS.astype(object)),
        *(ROWS.astype("U3"), np.array(3), np.array([[2**63, 0, 0]], np.uint64), ROWS.astype(np.complex64)),
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}{array.max() if array.dtype.kind in 'iu' else ''}",
)
def test_an_invalid_array_is_refused(array: np.ndarray, tmp_path: Path) -> None:
    _refused(_npy(tmp_path, array), r"p\.npy: ")
    np.savez(tmp_path / "q.npz", prefixes=array)
    _refused(tmp_path / "q.npz", r"q\.npz: ")


def test_an_empty_array_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", prefixes=ROWS[:0])
    _refused(tmp_path / "p.npz", "contains no prefixes")
    _refused(_npy(tmp_path, ROWS[:0]), r"p\.npy: ")


def test_several_unnamed_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", ROWS, ROWS)
    _refused(tmp_path / "p.npz", "none of its 2 arrays is named `prefixes`")


def test_missing_files_folders_and_other_types_are_refused(tmp_path: Path) -> None:
    for name in ("p.npy", "p.npz"):
        _refused(tmp_path / name, "no such file|No such file")
        (tmp_path / name).mkdir()
        _refused(tmp_path / name, f"{name}: ")
    _refused(tmp_path / "p.csv", r"must be a \.npy or \.npz")


def _hostile_archives() -> dict[str, bytes]:
    whole = io.BytesIO()
    np.savez_compressed(whole, prefixes=np.arange(3000).reshape(-1, 3) % 100)
    content = whole.getvalue()
    array = io.BytesIO()
    np.save(array, ROWS)
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (100000000000000, 3), }"
    endless = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    middle = len(content) // 2
    return {
        "garbage": b"garbage" * 100,
        "empty": b"",
        "half": content[:middle],
        "altered": content[:middle]
        + bytes(byte ^ 0xFF for byte in content[middle : middle + 40])
        + content[middle + 40 :],
        "array without archive": array.getvalue(),
        "text in place of an array": _zip({"prefixes": b"no array"}),
        "array that breaks off": _zip({"prefixes.npy": array.getvalue()[:-4]}),
        "array without end": _zip({"prefixes.npy": endless}),
        "header that is code": _zip({"prefixes.npy": endless.replace(b"{'descr': '<i8'", b"(__import__('o'")}),
        "unknown method": content.replace(b"\x08\x00", b"\x63\x00"),
        "pickle": _zip({"prefixes.npy": b"\x80\x04cos\nsystem\n."}),
    }


def _zip(files: dict[str, bytes]) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return memory.getvalue()


@pytest.mark.parametrize("name", sorted(_hostile_archives()))
def test_hostile_archives_are_refused(name: str, tmp_path: Path) -> None:
    (path := tmp_path / "p.npz").write_bytes(_hostile_archives()[name])
    _refused(path, "not a .npz file of plain arrays|does not fit into memory")


@given(st.binary(max_size=300))
@settings(deadline=None, max_examples=60)
def test_arbitrary_bytes_are_prefixes_or_an_error(tmp_path_factory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("p.npy", "p.npz"):
        (folder / name).write_bytes(content)
        try:
            assert _read(folder / name).shape[1] == 3
        except HarnessError as error:
            assert name in str(error)


HEADER = "Example ID,Score\n"


def _scores(folder: Path, text: str) -> Path:
    (path := folder / "scores.csv").write_text(text)
    return path


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(allow_nan=False)), max_size=9))
@settings(deadline=None)
def test_scores_are_read_back_unchanged(tmp_path_factory, pairs: list[tuple[int, float]]) -> None:
    text = HEADER + "".join(f"{id_},{score!r}\n" for id_, score in pairs)
    scores = read_scores(_scores(tmp_path_factory.mktemp("scores"), text), len(pairs))
    assert scores.tolist() == [score for _, score in pairs]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEADER, "0 scores for 1 rows"),
        (HEADER + "0,1.0\n0,1.0\n", "2 scores for 1 rows"),
        (HEADER + "0\n", "expected `Example ID,Score` rows"),
        (HEADER + "0,1,2\n", "expected `Example ID,Score` rows"),
        (HEADER + "0,high\n", "expected `Example ID,Score` rows"),
        (HEADER + "٠,é\n", "expected `Example ID,Score` rows"),
        (HEADER + "0,1" + "0" * 200 + "\n", "larger than 128 bytes"),
    ],
)
def test_invalid_scores_are_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=words):
        read_scores(_scores(tmp_path, text), 1)


@pytest.mark.timeout(20)
def test_a_fifo_instead_of_scores_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "scores.csv")
    with pytest.raises(HarnessError, match="not a regular file"):
        read_scores(tmp_path / "scores.csv", 1)


def test_a_device_instead_of_scores_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").symlink_to("/dev/zero")
    with pytest.raises(HarnessError, match="not a regular file"):
        read_scores(tmp_path / "scores.csv", 1)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[" * 50_000,
        b'name = "r"',
        b'name = "../r"\ntitle = "t"',
        b'name = "r"\ntitle = "t"\nrow_cap = 0',
    ],
)
def test_invalid_rules_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "round.toml").write_bytes(content)
    with pytest.raises(HarnessError, match=r"not the rules of a round|not a TOML file|not UTF-8 text") as refusal:
        read_round_rules(tmp_path)
    assert len(str(refusal.value)) < 400


def test_rules_cannot_name_local_files(tmp_path: Path) -> None:
    (tmp_path / "round.toml").write_text('name = "r"\ntitle = "t"\nanswer_file = "/etc/passwd"\n')
    with pytest.raises(HarnessError, match=r"not the rules of a round \(answer_file: unknown field\)"):
        read_round_rules(tmp_path)
