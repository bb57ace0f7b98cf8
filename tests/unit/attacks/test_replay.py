"""Recorded trials: their order, and the recall that recorded outputs of a real model are known to have."""

import lzma
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.replay import ReplayParams, recorded_suffixes, submitted_rows
from harness import Guesses, HarnessError
from harness.core.scoring import correct_rows, recall_at_errors
from harness.core.submission import submission_order, write_submission
from tests.tools.data import SATML, TRIALS, require_data
from tests.unit.attacks.running import SmallContext

MAX_TRIALS = 100


def record(folder: Path, names: list[str], losses: np.ndarray, generations: np.ndarray) -> None:
    """Write losses [trials, examples] and tokens [trials, examples, prefix + suffix] as the official script does."""
    for kind in ("generations", "losses"):
        (folder / kind).mkdir()
    for name, loss, tokens in zip(names, losses, generations, strict=True):
        np.save(folder / "losses" / f"{name}.npy", loss[:, None])
        np.save(folder / "generations" / f"{name}.npy", tokens)


def context_of(prefixes: np.ndarray, suffix_length: int) -> Any:
    return SmallContext(None, prefixes, suffix_length)


@pytest.fixture(scope="module")
def real_trials(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, np.ndarray]:
    """Return the folder of the first trials, their context, and the answers, [examples, 50]."""
    require_data(SATML, TRIALS)
    prefixes, answers = (np.load(SATML / f"train_{part}.npy")[-1000:] for part in ("prefix", "suffix"))
    arrays = []
    for name in ("losses", "suffixes"):
        with lzma.open(TRIALS / f"{name}.npy.xz") as file:
            arrays.append(np.load(file)[:, :MAX_TRIALS].swapaxes(0, 1))
    losses, suffixes = arrays
    folder = tmp_path_factory.mktemp("trials")
    generations = np.concatenate([np.broadcast_to(prefixes, (MAX_TRIALS, 1000, 50)), suffixes], axis=2)
    record(folder, [str(number) for number in range(MAX_TRIALS)], losses, generations)
    return folder, context_of(prefixes, 50), answers


def test_recorded_trials_of_gpt_neo_have_their_known_recall(real_trials: tuple[Path, Any, np.ndarray]) -> None:
    folder, context, answers = real_trials
    recorded = recorded_suffixes(ReplayParams(source=folder, trials=100), context)
    for trials, recall in ((1, 0.195), (10, 0.305), (100, 0.304)):
        submitted = submitted_of(recorded.part(np.flatnonzero(recorded.trial <= trials)))
        is_correct = correct_rows(submitted.ids, submitted.suffixes, answers)
        assert recall_at_errors(is_correct, submitted.ids, cap=100, examples=1000) == recall


@pytest.mark.parametrize("has_equal_losses", [False, True])
def test_the_first_trials_submit_what_the_baseline_writes(tmp_path: Path, has_equal_losses: bool) -> None:
    generator = np.random.default_rng(3)
    losses = generator.integers(0, 4, (12, 20)) if has_equal_losses else generator.permutation(240).reshape(12, 20)
    generations = generator.integers(0, 3, (12, 20, 4))
    generations[:, :, :2] = 0
    record(tmp_path, [str(number) for number in range(12)], losses.astype(float), generations)
    recorded = recorded_suffixes(ReplayParams(source=tmp_path), context_of(np.zeros((20, 2), np.int64), 2))
    for trials in (1, 10, 12):
        submitted = submitted_of(recorded.part(np.flatnonzero(recorded.trial <= trials)))
        # simple_baseline.py: the suffix of the first lowest loss of each example, the lowest losses first.
        best = losses[:trials].argmin(axis=0)
        order = np.argsort(losses[:trials].min(axis=0), kind="stable")
        assert submitted.ids.tolist() == order.tolist()
        assert (submitted.suffixes == generations[best, np.arange(20), -2:][order]).all()


def submitted_of(guesses: Guesses) -> Guesses:
    return guesses.part(submission_order(guesses.ids, guesses.suffixes, guesses.score))


@pytest.mark.parametrize(("order", "trials", "chosen"), [("number", 2, 2), ("text", 2, 10), ("number", 3, 10)])
def test_the_first_trials_are_those_with_the_lowest_numbers(
    tmp_path: Path, order: Any, trials: int, chosen: int
) -> None:
    prefixes = np.zeros((4, 2), np.int64)
    numbers = np.array([0, 10, 2])
    generations = np.broadcast_to(numbers[:, None, None], (3, 4, 5)).copy()
    generations[:, :, :2] = 0
    losses = np.broadcast_to(np.array([3.0, 1.0, 2.0])[:, None], (3, 4))
    record(tmp_path, [str(number) for number in numbers], losses, generations)
    found = recorded_suffixes(ReplayParams(source=tmp_path, trials=trials, order=order), context_of(prefixes, 3))
    assert (submitted_of(found).suffixes == chosen).all()


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(12)), st.integers(0, 1 << 30), st.booleans())
def test_a_permutation_of_trials_gives_the_same_submission_unless_losses_are_equal(
    order: list[int], seed: int, has_equal_losses: bool
) -> None:
    generator = np.random.default_rng(seed)
    losses = generator.permuted(np.tile(np.arange(12.0), (4, 1)), axis=1).T
    if has_equal_losses:
        losses[:] = 1.0
    generations = generator.integers(0, 9, (12, 4, 5))
    generations[:, :, :2] = 0
    # The suffix names its trial, so that no two trials are alike.
    generations[:, :, 2] = np.arange(12)[:, None]
    context = context_of(np.zeros((4, 2), np.int64), 3)
    submissions = []
    for trials in (list(range(12)), order):
        with TemporaryDirectory() as folder:
            record(Path(folder), [str(number) for number in range(12)], losses[trials], generations[trials])
            chosen = recorded_suffixes(ReplayParams(source=Path(folder)), context)
        rows = submission_order(chosen.ids, chosen.suffixes, chosen.score)
        submissions.append((chosen.ids[rows].tolist(), chosen.suffixes[rows].tolist()))
    # The first of equal trials is a rule of the official script.
    assert (submissions[0] == submissions[1]) == (not has_equal_losses or order[0] == 0)


def test_a_trial_without_a_number_is_refused(tmp_path: Path) -> None:
    record(tmp_path, ["first"], np.zeros((1, 4)), np.zeros((1, 4, 5), np.int64))
    with pytest.raises(HarnessError, match=r"first\.npy\. Use order=text to sort names as text\.$"):
        recorded_suffixes(ReplayParams(source=tmp_path), context_of(np.zeros((4, 2), np.int64), 3))


def test_a_csv_may_have_as_many_rows_as_a_large_round_allows(tmp_path: Path) -> None:
    ids = np.zeros(100_001, np.int64)
    write_submission(tmp_path / "long.csv", ids, np.ones((len(ids), 1), np.int64))
    assert len(submitted_rows(tmp_path / "long.csv", context_of(np.zeros((4, 2), np.int64), 1))) == len(ids)
