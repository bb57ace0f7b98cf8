"""A log with a limited size keeps its end."""

import resource
from pathlib import Path

import pytest

from harness.sandbox.capped_log import CAP_BYTES, CappedLog

MIB = 1 << 20


def test_a_small_log_keeps_everything(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "log")
    log.write(b"one\n")
    log.write(b"two\n")
    log.close()
    again = CappedLog(tmp_path / "log")
    again.write(b"three\n")
    again.close()
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("chunk", [1000, MIB, 5 * MIB, 20 * MIB])
def test_a_large_log_keeps_its_end(tmp_path: Path, chunk: int) -> None:
    log = CappedLog(tmp_path / "log")
    for _ in range(max(2, 40 * MIB // chunk)):
        log.write(b"." * (chunk - 5) + b"last\n")
        assert (tmp_path / "log").stat().st_size <= CAP_BYTES
    log.close()
    content = (tmp_path / "log").read_bytes()
    assert content.startswith(b"[earlier output was dropped here]\n") and content.endswith(b"last\n")
    assert content.count(b"dropped here") == 1 and len(content) >= CAP_BYTES // 2


def test_a_reopened_log_stays_under_the_cap(tmp_path: Path) -> None:
    for _ in range(5):
        log = CappedLog(tmp_path / "log")
        log.write(b"x" * (3 * MIB))
        log.close()
        assert (tmp_path / "log").stat().st_size <= CAP_BYTES
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "log"]


def test_a_full_disk_loses_only_what_is_written_meanwhile(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "log")
    log.write(b"before\n")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, most))
    try:
        log.write(b"a" * 50)
        log.write(b"b" * 50)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    log.write(b"after\n")
    log.close()
    content = (tmp_path / "log").read_bytes()
    assert content.startswith(b"before\n") and content.endswith(b"after\n") and b"b" * 50 not in content
