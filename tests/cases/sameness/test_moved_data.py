"""Runs on equal data count as runs on the same data, also after the clone was moved or installed again."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.comparison import require_one_round
from harness.analysis.replay import best_other_curve
from harness.core.errors import HarnessError
from harness.core.files import file_sha256, write_atomically
from harness.core.rounds import load_round
from harness.runs.folder import RunFolder
from tests.functional.machine import write_round
from tests.records import EXAMPLES, LENGTH, finished_run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a round and its data."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_round(folder, "small.toml", examples=EXAMPLES, length=LENGTH)
    return folder


def _run_on(data: Path, id_: str) -> RunFolder:
    """Record a finished run on the round in `data`."""
    scratch = data.with_name(id_)
    scratch.mkdir()
    folder = finished_run(scratch, id_)
    round_ = load_round(str(data / "small.toml"))
    spec = folder.attack_spec().model_copy(
        update={"round": round_, "data_sha256": {str(file): file_sha256(file) for file in round_.files}}
    )
    write_atomically(folder.spec_file, spec.model_dump_json())
    return folder


def test_a_run_from_before_a_move_is_the_baseline_of_a_later_one(data: Path) -> None:
    earlier = _run_on(data, "aaaa-some")
    later = _run_on(Path(shutil.copytree(data, data.with_name("moved"))), "bbbb-some")
    specs = [earlier.attack_spec(), later.attack_spec()]
    assert specs[0].data_sha256.keys().isdisjoint(specs[1].data_sha256)
    require_one_round(specs)
    reference = best_other_curve("some", later.attack_spec())
    assert reference is not None and reference.id == earlier.id


def test_a_run_on_other_data_is_no_baseline(data: Path) -> None:
    earlier = _run_on(data, "aaaa-some")
    other = Path(shutil.copytree(data, data.with_name("other")))
    prefixes = other / f"prefix-{EXAMPLES}.npy"
    np.save(prefixes, np.load(prefixes)[::-1])
    later = _run_on(other, "bbbb-some")
    assert best_other_curve("some", later.attack_spec()) is None
    with pytest.raises(HarnessError, match="differ in prefix_file"):
        require_one_round([earlier.attack_spec(), later.attack_spec()])
