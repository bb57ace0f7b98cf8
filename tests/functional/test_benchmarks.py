"""Benchmarks that use internals of the harness still work."""

from pathlib import Path

import pytest
from transformers import GPT2LMHeadModel

from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.engine.resolving import resolve_target
from tests.bench import architectures, book, folds, peers, rankers, rounds_make, schedule
from tests.bench.ctranslate2_peer import Sampler
from tests.bench.overhead import measure_ingest
from tests.bench.terminal import first_paint_seconds
from tests.data import SATML, SURROGATE, require_data
from tests.functional.machine import Machine

pytestmark = pytest.mark.long


def test_the_ingest_rate_is_measured() -> None:
    assert measure_ingest(repeats=1, guesses=2000)["guesses_per_second"] > 0


def test_the_first_paint_is_measured(machine: Machine) -> None:
    assert first_paint_seconds(repeats=1) > 0


def test_the_batches_of_a_run_cost_little_more_than_one_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "surrogate_or_demo", lambda: (load_round("demo"), resolve_target("demo").path))
    figures = list(schedule.measure(prefixes=4, trials=12, turns=1).values())
    suffixes, _, run, evaluations, _, live, prefixes = figures
    assert suffixes > 0 and run > 0
    assert 1 <= evaluations < 1.5 and live > 0.5 and prefixes >= 32


def test_every_architecture_is_compared_with_generate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures, "surrogate_or_demo", lambda: (load_round("demo"), resolve_target("demo").path))
    # The models need not learn here.
    monkeypatch.setattr(architectures, "_STEPS", 2)
    monkeypatch.setattr(architectures, "TRAINED_TRIALS", 3)
    figures = architectures.measure(turns=1, prefixes=2)
    assert len(figures) == 2 * 9 + 2 and all(value > 0 for value in figures.values())
    assert len(architectures.table(figures).splitlines()) == 2 + 9


def test_windows_of_a_book_are_compared_with_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "surrogate_or_demo", lambda: (load_round("demo"), resolve_target("demo").path))
    monkeypatch.setattr(book, "_DOCUMENTS", 3)
    monkeypatch.setattr(book, "_MEMORIZED", 8)
    monkeypatch.setattr(book, "_TURNS", 1)
    figures = book.measure()
    assert figures["windows"] > 20 and figures["factor"] > 0
    assert figures["largest_difference"] < book.REQUIRED_DIFFERENCE
    assert figures["largest_difference_memorized"] < book.REQUIRED_DIFFERENCE
    assert figures["share_at_0.1_%_memorized"] > 0.5


def test_the_rankers_are_compared() -> None:
    require_data(SURROGATE, SATML)
    found = rankers.measure(rows=20)
    assert len(found) == 9 and all(0 < recall <= 1 for recall in found.values())
    assert len(rankers.table(found).splitlines()) == 2 + 9


def test_two_step_is_compared_with_the_baseline_on_folds_of_the_training_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_data(SURROGATE, SATML)
    monkeypatch.setattr(folds, "WIDTH", 3)
    monkeypatch.setattr(folds, "TRIALS", 2)
    found = folds.measure(SURROGATE, rows=120)
    assert sum(fold.examples for fold in found) == 120
    for fold in found:
        assert 0 < fold.two_step <= fold.two_step_any <= 1 and fold.baseline_exact <= fold.baseline_any
    lines = folds.table({"surrogate-dev": found}).splitlines()
    assert len(lines) == 2 + 3 + 1 and lines[-1].startswith("| surrogate-dev | mean | 120 |")


def test_the_engine_is_compared_with_a_peer_and_the_official_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    def peer(model: GPT2LMHeadModel, prefixes: Tokens, threads: int, folder: Path) -> dict[str, Sampler]:
        assert model.config.n_positions == 100 and folder.is_dir()
        return {"float32": lambda rows, trials: len(rows) * trials}

    monkeypatch.setattr(peers, "surrogate_or_demo", lambda: (load_round("demo"), resolve_target("demo").path))
    monkeypatch.setattr(peers, "_PAUSE_SECONDS", 0)
    figures = peers.measure(prefixes=2, turns=1, threads=1, peer=peer)
    assert figures.pop("largest difference of logits within the window") < 1e-3
    missing = {name for name, value in figures.items() if value == "not measured: this CPU does not support it"}
    assert all(("int8" in name or "CTranslate2 bfloat16" in name) == (name in missing) for name in figures), figures
    assert all(value > 0 for name, value in figures.items() if name not in missing)


def test_a_round_from_a_corpus_is_measured() -> None:
    figures = rounds_make.measure(megabytes=2)
    assert figures["examples"] > 500 and figures["minutes per gigabyte (15)"] > 0


def test_a_peer_that_cannot_be_installed_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def peer(model: GPT2LMHeadModel, prefixes: Tokens, threads: int, folder: Path) -> dict[str, Sampler]:
        raise HarnessError("no network")

    monkeypatch.setattr(peers, "surrogate_or_demo", lambda: (load_round("demo"), resolve_target("demo").path))
    monkeypatch.setattr(peers, "_PAUSE_SECONDS", 0)
    figures = peers.measure(prefixes=2, turns=1, threads=1, peer=peer)
    missing = {name for name, value in figures.items() if value == "not measured: no network"}
    assert missing == {name for name in figures if "CTranslate2" in name}
    assert "score / official second pass (required: 5)" in figures
