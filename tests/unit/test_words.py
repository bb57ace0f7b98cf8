"""The documentation stays short: the numbers of pages and words that `python -m tests.reference.words` prints."""

import pytest

from tests.reference.pages import MARK
from tests.reference.words import HABITS, Page, habits, places, read_pages, sizes

LIMITS = {"users": (30, 18_000), "development": (6, 9_000)}
"""The largest number of pages and of hand-written words."""
HABIT_LIMITS = {
    "has or have for contains, lists, shows": 45,
    "that it, the, you (a clause for a noun)": 37,
    "that of, those of": 18,
    "alone, anyway, else, beside, as long as": 19,
    "the source": 15,
    "a semicolon": 101,
}
"""A third of each habit's count in the text of the first review."""


@pytest.mark.parametrize("group", LIMITS)
def test_pages_and_words_stay_within_their_limits(group: str) -> None:
    pages, words = sizes(list(read_pages()))[group]
    assert pages <= LIMITS[group][0]
    assert words <= LIMITS[group][1]


def test_no_habit_comes_back() -> None:
    counts = habits(read_pages())
    assert HABIT_LIMITS.keys() < HABITS.keys()
    assert {name: counts[name] for name, limit in HABIT_LIMITS.items() if counts[name] > limit} == {}


def test_code_generated_parts_and_targets_of_links_do_not_count() -> None:
    assert MARK.search("<!-- generated: x -->\n\none\n\n<!-- end of the generated part -->")
    paths = {page.path: page for page in read_pages()}
    assert paths["reference/command-line.md"].group == "generated"
    assert paths["reference/command-line.md"].written < 700 < paths["reference/command-line.md"].generated
    assert "pictures/" not in paths["how-to/use-the-tui.md"].text and "make demo" not in paths["index.md"].text


def test_a_habit_is_counted_and_shown() -> None:
    page = Page("x.md", "users", "The page has a headline; it says\nwhat the words are.", 10, 0)
    found = {name: number for name, number in habits([page]).items() if number}
    assert sum(found.values()) == 3 and set(found) < set(HABITS)
    (place,) = places(page, "a semicolon")
    assert "headline; it says what" in place
