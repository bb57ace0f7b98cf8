"""The passes and seeds of an attack."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.worker.attack_job import batch_size, first_and_rest
from harness.worker.batches import derive_seed


@given(st.integers(1, 10_000))
def test_the_first_trial_and_all_others_are_passes(trials: int) -> None:
    passes = first_and_rest(trials)
    assert sum(passes) == trials and passes[0] == 1 and len(passes) == min(2, trials)


def test_zero_trials_have_no_passes() -> None:
    assert first_and_rest(0) == []


@pytest.mark.parametrize(
    ("rows", "trials", "examples", "is_gpu", "size"),
    [
        (8192, 1, 15_000, False, 128),
        (8192, 99, 15_000, False, 128),
        (700, 99, 15_000, True, 64),
        (16384, 99, 15_000, True, 327),
        (16384, 1, 15_000, True, 938),
        (16384, 1, 30_000, True, 1024),
        (16384, 1, 1_000, True, 64),
    ],
)
def test_a_batch_fills_the_device_and_leaves_some_for_others(
    rows: int, trials: int, examples: int, is_gpu: bool, size: int
) -> None:
    assert batch_size(rows, trials, examples=examples, is_gpu=is_gpu) == size


@given(st.integers(0, 1 << 70), st.text(max_size=20), st.integers(0, 100))
def test_a_derived_seed_is_deterministic_and_has_63_bits(seed: int, stage: str, number: int) -> None:
    derived = derive_seed(seed, stage, number)
    assert derived == derive_seed(seed, stage, number)
    assert 0 <= derived < 1 << 63


def test_every_pass_and_stage_has_its_own_seed() -> None:
    numbers = range(9)
    seeds = {derive_seed(seed, stage, number) for seed in numbers for stage in ("a", "b", "1/1") for number in numbers}
    assert len(seeds) == 9 * 3 * 9
    # A new version must draw the same suffixes for an old seed.
    assert derive_seed(0, "guess", 0) == PINNED


PINNED = 3635617171580425243
