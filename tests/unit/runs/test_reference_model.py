"""The second model of an attack: where it comes from, what is recorded, and that a resumed run repeats its calls."""

from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.plugins.declarations import declaration_in
from harness.runs.launch import changed_inputs
from harness.runs.specs import AttackSpec
from tests.contract.execution import Killed, execute, new_run
from tests.functional.machine import Machine

ATTACK = '''
"""Samples, and orders the suffixes by the loss of both models."""

from harness import Attack, Guesses, Params, Policy


class Both(Attack[Params]):
    name = "both"
    reference_model = "demo-reference"

    def run(self, context):
        for batch in context.batches(size=2):
            drawn = context.target.sample(batch.prefixes, Policy(top_k=5), trials=2, seed=batch.seed)
            score = context.rank(batch.prefixes[drawn.row], drawn.suffixes, "reference_ratio")
            yield Guesses(batch.ids[drawn.row], drawn.suffixes, score)
'''
COMMAND = ("run", "both", "--round", "demo", "--target", "demo-tiny", "--threads", "1", "--limit", "4")


@pytest.fixture
def attacks(tmp_path: Path) -> Path:
    folder = tmp_path / "attacks"
    folder.mkdir()
    (folder / "both.py").write_text(ATTACK)
    return folder


def _spec(attacks: Path, *options: str) -> AttackSpec:
    machine = Machine(attacks.parent)
    planned = machine.json(*COMMAND, "--attacks", str(attacks), *options, "--dry-run")
    return AttackSpec.model_validate(planned["spec"])


def test_the_attack_names_the_reference_and_the_option_another(attacks: Path) -> None:
    spec = _spec(attacks)
    assert spec.reference is not None and spec.target is not None
    assert [model.id for model in spec.targets] == ["demo-tiny", "demo-reference"]
    assert spec.target_name == "demo-tiny"
    assert (spec.reference.device, spec.reference.threads) == (spec.target.device, 1)
    assert spec.request.reference is None
    other = _spec(attacks, "--reference", "demo-small")
    assert [model.id for model in other.targets] == ["demo-tiny", "demo-small"]
    assert other.request.reference == "demo-small"


def test_changed_weights_of_either_model_are_named(attacks: Path, tmp_path: Path) -> None:
    spec = _spec(attacks)
    folder = new_run(tmp_path / "run", spec, attacks / "both.py")
    hashes = [model.weights_sha256 for model in spec.targets]
    assert changed_inputs(folder, spec, hashes) == []
    assert changed_inputs(folder, spec, [hashes[0], "0"]) == ["the weights of demo-reference"]
    assert changed_inputs(folder, spec, hashes[:1]) == ["the weights of demo-reference"]
    assert changed_inputs(folder, spec, ["0", hashes[1]]) == ["the weights of demo-tiny"]


def test_a_run_without_a_reference_says_what_to_do(attacks: Path, tmp_path: Path) -> None:
    spec = _spec(attacks).model_copy(update={"reference": None})
    with pytest.raises(HarnessError) as error:
        execute(new_run(tmp_path / "run", spec, attacks / "both.py"))
    assert str(error.value) == (
        "the attack needs a reference model and the run has none. Name one with --reference MODEL."
    )


def test_a_reference_that_does_not_fit_is_named(attacks: Path, tmp_path: Path) -> None:
    spec = _spec(attacks)
    wider = spec.round.model_copy(update={"vocabulary": 400})
    with pytest.raises(HarnessError, match=r"^the model predicts 384 tokens and the round has 400"):
        execute(new_run(tmp_path / "target", spec.model_copy(update={"round": wider}), attacks / "both.py"))
    assert spec.reference is not None
    absent = spec.reference.model_copy(update={"path": tmp_path / "absent"})
    with pytest.raises(HarnessError, match=r"^reference model: no such directory"):
        execute(new_run(tmp_path / "reference", spec.model_copy(update={"reference": absent}), attacks / "both.py"))


@pytest.mark.slow
def test_a_resumed_run_with_two_models_gives_the_same_bytes(attacks: Path, tmp_path: Path) -> None:
    spec = _spec(attacks)
    whole = new_run(tmp_path / "whole", spec, attacks / "both.py")
    frames = execute(whole)
    # A batch has three frames, so the kills are at each place of a batch, and between two of them.
    for kill_after in range(frames // 2, frames // 2 + 4):
        killed = new_run(tmp_path / f"killed-{kill_after}", spec, attacks / "both.py")
        with pytest.raises(Killed):
            execute(killed, max_frames=kill_after)
        execute(killed)
        assert killed.submission.read_bytes() == whole.submission.read_bytes()


def test_an_attack_without_a_target_has_no_reference_model() -> None:
    without = ATTACK.replace('name = "both"', 'name = "both"\n    uses_target = False').encode()
    with pytest.raises(HarnessError, match="`reference_model` needs a target"):
        declaration_in(without)
    assert declaration_in(ATTACK.encode()).reference_model == "demo-reference"
