"""Sweep files: the combinations that they give, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import HarnessError
from harness.sweeps.file import SweepFile, combinations, read_sweep_file

VALUES = st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True)


def _write(folder: Path, text: str) -> Path:
    path = folder / "small.toml"
    path.write_text(text)
    return path


def test_a_file_gives_every_combination_and_each_setting_before_the_next_seed(tmp_path: Path) -> None:
    file = _write(
        tmp_path,
        'attacks = ["greedy", "sampling"]\nseeds = [3, 4]\nrounds = ["demo", "./own.toml"]\n'
        "[params.sampling]\ntemperature = [0.5, 1.0]\ntrials = 5\n",
    )
    found = read_sweep_file(file)
    runs = list(combinations(found, uses_target={"greedy": True, "sampling": True}))
    assert found.name == "small" and len(runs) == 2 * 2 * 3
    assert [run.seed for run in runs] == [3] * 6 + [4] * 6
    assert [run.setting for run in runs[:3]] == [
        "greedy",
        "sampling temperature=0.5 trials=5",
        "sampling temperature=1.0 trials=5",
    ]
    assert {run.round for run in runs} == {"demo", str(tmp_path / "own.toml")}


def test_an_attack_without_a_target_is_not_repeated_for_each_target() -> None:
    file = SweepFile(name="x", attacks=("greedy", "lookup"), targets=("demo", "demo-tiny"))
    runs = list(combinations(file, uses_target={"greedy": True, "lookup": False}))
    assert [(run.attack, run.target) for run in runs] == [("greedy", "demo"), ("lookup", None), ("greedy", "demo-tiny")]


@given(seeds=VALUES, first=VALUES, second=VALUES)
def test_combinations_are_distinct_and_as_many_as_the_product(
    seeds: list[int], first: list[int], second: list[int]
) -> None:
    fields = {"name": "x", "attacks": ["a"], "seeds": seeds, "params": {"a": {"one": first, "two": second}}}
    runs = list(combinations(SweepFile.model_validate(fields), uses_target={"a": True}))
    assert len({(run.setting, run.seed) for run in runs}) == len(runs) == len(seeds) * len(first) * len(second)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "attacks: is required."),
        ("attacks = []", "attacks: "),
        ('attacks = ["a"]\nseed = 1', "seed: unknown field (did you mean seeds"),
        ('attacks = ["a"]\nseeds = [1, 1]', "seeds: 1 is given 2 times. Keep one."),
        ('attacks = ["a"]\nbudget = "soon"', "budget: 'soon' is not a duration"),
        ('attacks = ["a"]\n[params.b]\nx = 1', "params.b: the attack is not in attacks."),
        ('attacks = ["a"]\n[params.a]\nx = [1, 2, 1]', "params.a.x: 1 is given 2 times."),
        ('attacks = ["a"]\n[params.a]\nx = []', "params.a.x: expected at least one value."),
        ('attacks = ["a"]\n[params.a]\nx = [[1]]', "params.a.x: expected text, a number"),
        ("attacks = [", "not a TOML file"),
        ('attacks = "a"', "attacks: must be a list in brackets, got 'a'."),
        ('attacks = ["a"]\nname = "../outside"', "name: use at most 40 letters"),
    ],
)
def test_a_faulty_file_is_refused_in_one_sentence_that_names_the_field(tmp_path: Path, text: str, message: str) -> None:
    file = _write(tmp_path, text)
    with pytest.raises(HarnessError) as refused:
        read_sweep_file(file)
    assert str(refused.value).startswith(f"{file}: ") and message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("file", "name"), [("my sweep.toml", "my-sweep"), (".hidden.toml", "hidden"), ("é.toml", "sweep")]
)
def test_the_default_name_is_valid(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_text('attacks = ["a"]')
    assert read_sweep_file(tmp_path / file).name == name


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no such file"):
        read_sweep_file(tmp_path / "absent.toml")


def test_the_targets_of_an_attack_without_one_are_left_out_before_anything_is_combined() -> None:
    # Skipping them one by one would take a billion steps.
    fields = {"name": "x", "attacks": ["a"], "targets": [str(n) for n in range(20_000)], "seeds": range(50_000)}
    file = SweepFile.model_validate(fields)
    assert sum(1 for _ in combinations(file, uses_target={"a": False})) == 50_000
