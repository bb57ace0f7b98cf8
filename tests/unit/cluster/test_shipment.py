"""A shipment has everything that a worker needs, and no answer; a record from a node is checked."""

import json
from pathlib import Path

import numpy as np
import pytest

from harness.cluster.node import Message, ReceivedRecord, compute_run
from harness.cluster.shipment import Packer, Shipment, chunks_of
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.core.run_request import RunRequest
from harness.core.spec import JobSpec
from harness.plugins.discovery import attack_named
from harness.plugins.schema import validated_params
from harness.runs.folder import RunFolder
from harness.runs.planning import plan_attack
from harness.runs.summary import run_summary
from harness.sweeps.running import PlannedRun
from tests.functional.machine import PLUGINS, write_round


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARNESS_NODE_HOME", str(tmp_path / "node"))
    write_round(tmp_path)
    return tmp_path


def _planned(folder: Path, *, fold: bool = False) -> PlannedRun:
    attack = attack_named("draws", PLUGINS)
    round_ = load_round(str(folder / "round.toml"))
    if fold:
        round_ = round_.model_copy(update={"clusters": "computed"}).derived_fold(0)
    params = validated_params(attack.path, {"pause": 0, "file": str(folder / "prefix-64.npy")})
    spec = plan_attack(attack, params, round_, None, RunRequest(budget="60", seed=1), id_="test-draws")
    return PlannedRun(spec, attack)


def _record(planned: PlannedRun, packer: Packer, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    shipment = Shipment.model_validate_json(packer.shipment(planned).model_dump_json())
    with monkeypatch.context() as at_node:
        at_node.setenv("HARNESS_HOME", "/absent")
        messages = compute_run(shipment, lambda sha256: chunks_of(packer.contents[sha256]), device="cpu")
        return [message for message in messages if message[0] != "status"]


@pytest.mark.parametrize("fold", [False, True])
def test_a_shipment_contains_no_answer(homes: Path, fold: bool) -> None:
    planned = _planned(homes, fold=fold)
    packer = Packer()
    shipment = packer.shipment(planned)
    shipped = b"".join(file.read_bytes() for file in packer.contents.values())
    shipped += shipment.model_dump_json().encode()
    hidden = np.load(homes / ("train_suffix-64.npy" if fold else "answer-64.npy"))
    known = [row.tobytes() in shipped for row in hidden]
    # The rows of the other folds are training examples, which an attack may see.
    assert sum(known) == (len(known) - planned.spec.examples if fold else 0)
    assert shipment.contents == set(packer.contents) and shipment.spec.round.is_blind


def test_a_run_comes_home_scored_and_complete(homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = _planned(homes)
    messages = _record(planned, Packer(), monkeypatch)
    received = ReceivedRecord(planned.spec)
    for kind, content in messages:
        if kind == "file":
            received.add(*content)
    assert not RunFolder.of("test-draws").path.exists()
    received.store(messages[-1][1])
    folder = RunFolder.of("test-draws")
    summary = run_summary(folder)
    assert str(summary.status) == "finished" and summary.recall_at_cap is not None
    spec = folder.attack_spec()
    assert spec.round == planned.spec.round and "node" in spec.hardware
    assert json.loads(folder.scorecard.read_text())["recall_at_cap"] == summary.recall_at_cap


def test_answers_beside_other_files_are_not_sent(homes: Path) -> None:
    directory = homes / "files"
    directory.mkdir()
    (directory / "kept.npy").write_bytes((homes / "answer-64.npy").read_bytes())
    planned = _planned(homes)
    record = planned.spec.paths["file"].model_copy(update={"path": directory})
    spec = planned.spec.model_copy(update={"paths": {"file": record}})
    with pytest.raises(HarnessError, match="answers are among the files"):
        Packer().shipment(PlannedRun(spec, planned.attack))


def test_a_run_that_could_not_be_prepared_can_be_started_again(homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned, packer = _planned(homes), Packer()
    shipment = packer.shipment(planned)
    with monkeypatch.context() as at_node:
        at_node.setenv("HARNESS_HOME", "/absent")
        with pytest.raises(HarnessError, match="damaged on its way"):
            list(compute_run(shipment, lambda _: [b"damaged"], device="cpu"))
    assert _record(planned, packer, monkeypatch)[-1][0] == "end"


def _arrived(planned: PlannedRun, files: dict[str, bytes]) -> ReceivedRecord:
    received = ReceivedRecord(planned.spec)
    for name, content in files.items():
        received.add(name, content)
    return received


def test_a_file_that_no_run_has_is_refused(homes: Path) -> None:
    received = ReceivedRecord(_planned(homes).spec)
    for name in ("../outside", "scorecard.json", "code/other.py", "/etc/passwd"):
        with pytest.raises(HarnessError, match="unexpected file"):
            received.add(name, b"")


def test_a_damaged_record_is_refused(homes: Path) -> None:
    planned = _planned(homes)
    spec: JobSpec = planned.spec
    received = _arrived(planned, {"spec.json": spec.model_dump_json().encode(), "run.db": b"half"})
    with pytest.raises(HarnessError, match=r"run\.db did not arrive as the node sent it"):
        received.store({"run.db": "0" * 64})
    assert not RunFolder.of("test-draws").path.exists()


def test_another_run_than_the_planned_one_is_refused(homes: Path) -> None:
    planned = _planned(homes)
    other = planned.spec.model_copy(update={"seed": 2})
    received = _arrived(planned, {"spec.json": other.model_dump_json().encode()})
    with pytest.raises(HarnessError, match="something else than was planned"):
        received.store({})
