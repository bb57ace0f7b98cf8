"""The options that start a stored run again, from its spec alone."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.rounds import load_round
from harness.runs.planning import recorded_options
from harness.runs.specs import AttackSpec
from tests.unit.tui.recorded import recorded_run
from tests.unit.tui.recorded_audit import MODEL


@pytest.fixture
def spec(home: Path) -> AttackSpec:
    return recorded_run(home).folder.attack_spec()


def changed(spec: AttackSpec, **fields: Any) -> AttackSpec:
    return spec.model_copy(update=fields)


def test_defaults_are_none(spec: AttackSpec, home: Path) -> None:
    options = recorded_options(spec)
    assert (options.attack, options.round, options.seed) == ("some", str(home / "small.toml"), 0)
    assert (options.limit, options.budget, options.target, options.revision, options.threads) == (None,) * 5
    assert (options.attacks, options.params, options.device, options.dtype) == (None, {}, "auto", "auto")


def test_parameters_are_texts_as_a_user_types_them(spec: AttackSpec) -> None:
    params = {"n": 3, "rate": 1e-3, "deep": True, "none": None, "text": "a b", "list": [1, 2]}
    options = recorded_options(changed(spec, params=params, changed=("n",)))
    assert options.params == {
        "n": "3",
        "rate": "0.001",
        "deep": "true",
        "none": "none",
        "text": "a b",
        "list": "[1, 2]",
    }
    assert options.changed == ("n",)


@pytest.mark.parametrize("name", ["demo", "satml-dev:fold1of5"])
def test_a_built_in_round_is_named(spec: AttackSpec, name: str) -> None:
    assert recorded_options(changed(spec, round=load_round(name))).round == name


def test_a_round_whose_file_is_gone_is_named(spec: AttackSpec) -> None:
    gone = load_round("demo").model_copy(update={"source": Path("/gone/rounds/demo.toml")})
    assert recorded_options(changed(spec, round=gone)).round == "demo"


def test_the_target_and_its_revision_are_options_if_they_are_not_those_of_the_round(spec: AttackSpec) -> None:
    target = MODEL.model_copy(update={"id": spec.round.target, "revision": spec.round.revision, "threads": 3})
    own = recorded_options(changed(spec, target=target, hardware={"cores": 3}))
    assert (own.target, own.revision, own.device, own.threads) == (None, None, MODEL.device, None)
    other = recorded_options(changed(spec, target=target.model_copy(update={"id": "x/y", "revision": "v2"})))
    assert (other.target, other.revision, other.threads) == ("x/y", "v2", 3)
    assert recorded_options(changed(spec, target=target.model_copy(update={"id": "x/y"}))).revision is None


def test_the_values_of_a_form_have_the_keys_of_its_fields(spec: AttackSpec) -> None:
    options = recorded_options(changed(spec, params={"seed": 1}, seed=7, budget=5400.0, examples=4))
    assert options.form_values == {
        "seed": "1",
        "--round": options.round,
        "--seed": "7",
        "--budget": "1h30m",
        "--limit": "4",
        "--device": "auto",
        "--dtype": "auto",
    }


def test_the_workers_of_a_run_divide_its_threads(spec: AttackSpec) -> None:
    target = MODEL.model_copy(update={"device": "cpu", "threads": 4})
    shared = changed(spec, target=target, devices=("cpu", "cpu"), hardware={"cores": 8})
    options = recorded_options(shared)
    assert (options.devices, options.device, options.threads) == ("cpu:2", "auto", None)
    assert recorded_options(changed(shared, hardware={"cores": 16})).threads == 8
    gpus = recorded_options(changed(shared, devices=("cuda:0", "cuda:3")))
    assert gpus.devices == "0,3"


def test_the_devices_of_a_split_target_are_those_of_its_pieces(spec: AttackSpec) -> None:
    target = MODEL.model_copy(update={"device": "cuda:3", "shards": ("cuda:3", "cuda:0"), "threads": 8})
    options = recorded_options(changed(spec, target=target, hardware={"cores": 8}))
    assert (options.devices, options.shard_target, options.device, options.threads) == ("3,0", True, "auto", None)
    assert not recorded_options(spec).shard_target
