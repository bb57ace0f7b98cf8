"""The search through all guesses of a run. It reads the newest guesses first and can be cancelled."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.analysis.decoded_text import TokenText
from harness.tui import guess_search
from harness.tui.guess_search import parse_example_id, search_guesses
from harness.tui.run_feed import RunFeed
from tests.records import Recorded, recorded_run


@pytest.fixture
def run(home: Path) -> Recorded:
    return recorded_run(home)


def search_results(run: Recorded, query: str, *, on_progress: bool = True) -> list[tuple[int, int, bool | None]]:
    lines = search_guesses(query, RunFeed(run.folder), TokenText(None), on_progress=lambda share: on_progress)
    return [(line.seq, line.example, line.is_right) for line in lines]


def test_an_id_finds_the_guesses_of_its_example_oldest_first(run: Recorded) -> None:
    run.guess(run.batch("a"), [(3, False, 0.9), (2, True, 0.1), (3, True, 0.2)])
    assert search_results(run, "3") == [(1, 3, False), (3, 3, True)]
    assert search_results(run, "5") == []


def test_an_example_that_is_not_in_the_round_is_not_found(run: Recorded) -> None:
    batch = run.batch("a")
    with run.store.transaction():
        run.store.add_rows(
            *batch,
            "guess",
            {"example": np.array([99]), "suffix": run.answers[:1], "score": np.array([0.0]), "trial": np.array([0])},
        )
    assert search_results(run, "99") == []


def test_void_guesses_are_not_found(run: Recorded) -> None:
    run.guess(run.batch("a"), [(3, False, 0.9)])
    run.guess(run.batch("a"), [(3, True, 0.9)])
    assert search_results(run, "3") == [(2, 3, True)]


def test_text_is_found_in_suffixes_and_prefixes(run: Recorded) -> None:
    run.guess(run.batch("a"), [(1, True, 0.9), (2, True, 0.9)])
    suffix = " ".join(map(str, run.answers[1]))
    assert search_results(run, suffix) == [(1, 1, True)]
    prefix = " ".join(map(str, RunFeed(run.folder).prefixes[2]))
    assert search_results(run, prefix) == [(2, 2, True)]
    assert search_results(run, f'"{run.answers[1][0]}"')[0][1] == 1
    assert search_results(run, "[/ nothing like it") == []


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 7, 100])
def test_every_guess_is_searched_once_for_any_batch_size(
    run: Recorded, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guess_search, "_BATCH_ROWS", batch_rows)
    run.guess(run.batch("a"), [(example, False, 0.0) for example in range(7)])
    assert [seq for seq, _, _ in search_results(run, " ")] == [1, 2, 3, 4, 5, 6, 7]


def test_only_the_newest_results_are_returned(run: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guess_search, "_BATCH_ROWS", 2)
    monkeypatch.setattr(guess_search, "MAX_RESULTS", 3)
    run.guess(run.batch("a"), [(example, False, 0.0) for example in range(7)])
    assert [seq for seq, _, _ in search_results(run, " ")] == [5, 6, 7]


def test_a_cancelled_search_returns_its_results(run: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guess_search, "_BATCH_ROWS", 2)
    run.guess(run.batch("a"), [(example, False, 0.0) for example in range(7)])
    assert [seq for seq, _, _ in search_results(run, " ", on_progress=False)] == [6, 7]


@pytest.mark.parametrize(
    ("query", "id_"), [("12", 12), ('"12"', None), ("1 2", None), ("x", None), ("٣", None), ("9" * 30, None)]
)
def test_a_query_of_digits_is_an_example_id(query: str, id_: int | None) -> None:
    assert parse_example_id(query) == id_


def test_text_matches_in_either_case(run: Recorded) -> None:
    tokenizer = Path(__file__).parents[3] / "harness" / "demo" / "weights" / "tokenizer.json"
    shutil.copy(tokenizer, run.folder.tokenizer)
    text = TokenText(run.folder.tokenizer)
    encode = Tokenizer.from_file(str(tokenizer)).encode
    suffixes = np.array([encode(words).ids[:4] for words in ("Wording of it", "something else")], np.uint16)
    batch = run.batch("a")
    with run.store.transaction():
        run.store.add_rows(
            *batch,
            "guess",
            {"example": np.array([0, 0]), "suffix": suffixes, "score": np.zeros(2), "trial": np.zeros(2, int)},
        )
    query = text.texts(suffixes)[0].swapcase()
    lines = search_guesses(query, RunFeed(run.folder), text, on_progress=lambda share: True)
    assert [line.seq for line in lines] == [1]
