"""The ledger's stand-in: the last whole beat counts, and beating takes no room."""

from pathlib import Path

from harness.supervisor.standby import Standby, StandbyRecord, read_standby


def test_the_last_beat_is_read_back_and_the_file_keeps_its_size(tmp_path: Path) -> None:
    path, spent = tmp_path / "standby", iter([1.5, 2.25, 1e6 / 3])
    assert read_standby(path) is None
    standby = Standby(path, lambda: next(spent))
    assert read_standby(path) is None
    size = path.stat().st_size
    for expected in (1.5, 2.25, 1e6 / 3):
        standby.beat(is_waiting=expected < 2)
        assert read_standby(path) == StandbyRecord(expected, is_waiting=expected < 2)
    assert path.stat().st_size == size


def test_a_torn_beat_leaves_the_one_before(tmp_path: Path) -> None:
    path, spent = tmp_path / "standby", iter([1.0, 2.0, 3.0])
    standby = Standby(path, lambda: next(spent))
    standby.beat(is_waiting=True)
    standby.beat(is_waiting=True)
    content = bytearray(path.read_bytes())
    place = content.index(b"2.0")
    content[place] = ord("7")
    path.write_bytes(content)
    assert read_standby(path) == StandbyRecord(1.0, is_waiting=True)
    # Whoever goes on overwrites the torn one first.
    Standby(path, lambda: next(spent)).beat(is_waiting=False)
    assert read_standby(path) == StandbyRecord(3.0, is_waiting=False)
