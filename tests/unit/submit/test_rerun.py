"""Rules and scores from untrusted files are validated."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import HarnessError
from harness.submit.rerun import read_round_rules, read_scores

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
    (tmp_path / "round.toml").write_text('name = "r"\ntitle = "t"\nprefix_file = "/etc/passwd"\n')
    assert read_round_rules(tmp_path).prefix_file == tmp_path / "prefixes.npy"
