"""The page of a leaderboard."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from harness.submit.html_page import page
from harness.submit.leaderboard import Entry

ENTRY = Entry(bundle="one.zip", team="One", attack="greedy", place=1, recall_at_cap=0.4, recall_interval=(0.3, 0.5))
JUDGING = SimpleNamespace(
    round=SimpleNamespace(name="demo", error_cap=100, budget_machine="p100"), prefixes=np.zeros(9), answers=np.zeros(9)
)
OF_CALIBRATED = ("standard time", "of the budget", "at parts of the round", "was calibrated")


def cells(text: str) -> tuple[int, int]:
    """Return the number of cells in the head and in the body of the table."""
    return len(re.findall(r"<th\b", text)), len(re.findall(r"<td\b", text))


def test_columns_without_a_value_are_left_out() -> None:
    text = page("leaderboard.html.j2", entries=[ENTRY, replace(ENTRY, place=2)], judging=JUDGING)
    assert not [words for words in OF_CALIBRATED if words in text]
    assert cells(text) == (8, 16)


def test_a_value_of_one_bundle_shows_the_column() -> None:
    measured = replace(
        ENTRY, place=2, standard_s=7.0, standard_machine="p100", recall_at_budget=((0.01, 0.1), (1.0, 0.4))
    )
    text = page("leaderboard.html.j2", entries=[ENTRY, measured], judging=JUDGING)
    assert all(words in text for words in OF_CALIBRATED)
    assert cells(text) == (10, 20)
