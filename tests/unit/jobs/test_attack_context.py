"""The passes and seeds of an attack."""

from hypothesis import given
from hypothesis import strategies as st

from harness.jobs.attack.context import doubling_passes
from harness.worker.batches import derive_seed


@given(st.integers(1, 10_000))
def test_passes_double_and_add_up(trials: int) -> None:
    passes = list(doubling_passes(trials))
    assert sum(passes) == trials
    assert passes[0] == 1
    assert all(size == 2**number for number, size in enumerate(passes[:-1]))
    assert 1 <= passes[-1] <= 2 ** (len(passes) - 1)


def test_zero_trials_have_no_passes() -> None:
    assert list(doubling_passes(0)) == []


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
