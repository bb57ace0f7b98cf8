"""A search of the stream goes through the whole store, newest guesses first, and can be ended."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.analysis.decoded_text import TokenText
from harness.core.guesses import Guesses
from harness.tui import search
from harness.tui.feed import RunFeed
from harness.tui.search import example_meant, guesses_for
from tests.functional.machine import homes
from tests.unit.tui.recorded import Recorded, recorded_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    return recorded_run(tmp_path)


def found(run: Recorded, wanted: str, *, goes_on: bool = True) -> list[tuple[int, int, str]]:
    lines = guesses_for(wanted, RunFeed(run.folder), TokenText(None), goes_on=lambda share: goes_on)
    return [(line.seq, line.example, line.verdict.value) for line in lines]


def test_an_example_is_found_by_its_id_oldest_guess_first(run: Recorded) -> None:
    run.guess(run.batch("a"), [(3, False, 0.9), (2, True, 0.1), (3, True, 0.2)])
    assert found(run, "3") == [(1, 3, "wrong"), (3, 3, "right")]
    assert found(run, "5") == []


def test_an_example_that_the_round_lacks_is_not_found_whatever_the_store_holds(run: Recorded) -> None:
    batch = run.batch("a")
    with run.store.transaction():
        run.store.add_rows(*batch, "guess", Guesses(np.array([99]), run.answers[:1], np.array([0.0])).columns())
    assert found(run, "99") == []


def test_void_guesses_are_not_found(run: Recorded) -> None:
    run.guess(run.batch("a"), [(3, False, 0.9)])
    run.guess(run.batch("a"), [(3, True, 0.9)])
    assert found(run, "3") == [(2, 3, "right")]


def test_text_is_found_in_suffixes_and_in_prefixes(run: Recorded) -> None:
    run.guess(run.batch("a"), [(1, True, 0.9), (2, True, 0.9)])
    suffix = " ".join(map(str, run.answers[1]))
    assert found(run, suffix) == [(1, 1, "right")]
    prefix = " ".join(map(str, RunFeed(run.folder).prefixes[2]))
    assert found(run, prefix) == [(2, 2, "right")]
    assert found(run, f'"{run.answers[1][0]}"')[0][1] == 1
    assert found(run, "[/ nothing like it") == []


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 100])
def test_every_guess_is_looked_at_once_however_many_are_read_at_once(
    run: Recorded, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_ROWS_AT_ONCE", at_once)
    run.guess(run.batch("a"), [(example, False, 0.0) for example in range(7)])
    assert [seq for seq, _, _ in found(run, " ")] == [1, 2, 3, 4, 5, 6, 7]


def test_only_the_last_of_many_are_given(run: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(search, "MOST_FOUND", 3)
    run.guess(run.batch("a"), [(example, False, 0.0) for example in range(7)])
    assert [seq for seq, _, _ in found(run, " ")] == [5, 6, 7]


def test_a_search_that_is_given_up_has_what_it_found(run: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_ROWS_AT_ONCE", 2)
    run.guess(run.batch("a"), [(example, False, 0.0) for example in range(7)])
    assert [seq for seq, _, _ in found(run, " ", goes_on=False)] == [6, 7]


@pytest.mark.parametrize(
    ("wanted", "id_"), [("12", 12), ('"12"', None), ("1 2", None), ("x", None), ("٣", None), ("9" * 30, None)]
)
def test_digits_alone_are_an_example(wanted: str, id_: int | None) -> None:
    assert example_meant(wanted) == id_


def test_text_matches_in_either_case(run: Recorded) -> None:
    tokenizer = Path(__file__).parents[3] / "harness" / "engine" / "demo" / "weights" / "tokenizer.json"
    shutil.copy(tokenizer, run.folder.tokenizer)
    text = TokenText(run.folder.tokenizer)
    encode = Tokenizer.from_file(str(tokenizer)).encode
    suffixes = np.array([encode(words).ids[:4] for words in ("Wording of it", "something else")], np.uint16)
    batch = run.batch("a")
    with run.store.transaction():
        run.store.add_rows(*batch, "guess", Guesses(np.array([0, 0]), suffixes, np.zeros(2)).columns())
    wanted = text.texts(suffixes)[0].swapcase()
    lines = guesses_for(wanted, RunFeed(run.folder), text, goes_on=lambda share: True)
    assert [line.seq for line in lines] == [1]
