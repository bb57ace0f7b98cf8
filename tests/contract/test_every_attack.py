"""Contracts of all built-in attacks."""

from pathlib import Path

import numpy as np
import pytest

from harness.core import paths
from harness.core.attack import GUESS_STAGE
from harness.core.examples import load_prefixes, load_training
from harness.core.parameters import parameters_in
from harness.core.rounds import load_round
from harness.demo import SIZES
from harness.engine.loading import load_target
from harness.engine.target import Target
from harness.plugins.discovery import AttackFile
from harness.worker.plugin import load_attack
from tests.contract.attacks import BUILT_IN, fast_settings, write_short_demo
from tests.unit.attacks.running import SmallContext, run
from tests.unit.audits.in_memory import ReportedCalls

every_attack = pytest.mark.parametrize("attack", BUILT_IN, ids=lambda attack: attack.name)


@pytest.fixture(scope="module")
def tiny() -> Target:
    return load_target(SIZES[-1].weights, device="cpu", threads=1)


def test_every_file_in_attacks_is_an_attack() -> None:
    files = {path.name for path in (paths.PACKAGE.parent / "attacks").glob("[!_]*.py")}
    assert {attack.path.name for attack in BUILT_IN} == files
    assert {attack.name for attack in BUILT_IN} >= {"baseline", "greedy", "replay"}
    assert [attack.error for attack in BUILT_IN] == [None] * len(files)


@every_attack
def test_an_attack_has_a_docstring_and_a_reference(attack: AttackFile) -> None:
    assert attack.summary.endswith(".") and len(attack.summary) <= 110
    assert attack.reference
    assert attack.name == attack.path.stem


@every_attack
def test_the_declaration_in_the_source_equals_the_class(attack: AttackFile) -> None:
    loaded = load_attack(attack.path)
    names = ("name", "reference", "control", "uses_target", "guesses_per_example", "requires")
    assert [getattr(loaded, name) for name in names] == [getattr(attack, name) for name in names]


@every_attack
def test_every_parameter_has_a_description(attack: AttackFile) -> None:
    params = load_attack(attack.path).params_type()
    parameters = parameters_in(params.model_json_schema())
    assert all(parameter.description.endswith(".") for parameter in parameters)
    assert {parameter.name for parameter in parameters} == set(params.model_fields)


@every_attack
def test_the_defaults_are_valid(attack: AttackFile) -> None:
    params = load_attack(attack.path).params_type()
    required = {name: "/any" for name, field in params.model_fields.items() if field.is_required()}
    resolved = params.model_validate(required).model_dump(mode="json")
    assert params.model_validate(resolved).model_dump(mode="json") == resolved


@every_attack
def test_a_small_run_answers_every_example(attack: AttackFile, tiny: Target, tmp_path: Path) -> None:
    rows, round_ = 4, load_round(str(write_short_demo(tmp_path)))
    words = fast_settings(attack.name, tmp_path, rows, round_.suffix_length)[1::2]
    settings = load_attack(attack.path).params_type().model_validate_strings(dict(word.split("=", 1) for word in words))
    tiny.progress = ReportedCalls()
    context = SmallContext(tiny, load_prefixes(round_)[:rows], round_.suffix_length, load_training(round_))
    guesses = run(attack.name, context, **dict(settings))
    assert set(guesses.ids.tolist()) == set(range(rows))
    assert guesses.suffixes.shape[1] == round_.suffix_length and np.isfinite(guesses.score).all()
    if attack.guesses_per_example == 1:
        assert len(guesses.ids) == rows
    # Otherwise the ETA forgets the later stages.
    assert context.begun == [GUESS_STAGE] or set(context.begun) <= set(context.announced)
