"""Tags of a run: what is valid, how they are stored, and that the summary has them at once."""

from pathlib import Path

import pytest

from harness.core.errors import HarnessError, UsageError
from harness.runs.summary import run_summary
from harness.runs.tags import add_tags, check_tag, remove_tags, tags_of
from tests.records import Recorded, recorded_run


@pytest.fixture
def run(home: Path) -> Recorded:
    run = recorded_run(home)
    run.event("phase", phase="finished")
    run.store.close()
    return run


def test_tags_are_added_and_removed(run: Recorded) -> None:
    assert tags_of(run.folder) == ()
    add_tags(run.folder, ["good", "a.b_c-1"])
    add_tags(run.folder, ["good"])
    assert tags_of(run.folder) == ("a.b_c-1", "good")
    remove_tags(run.folder, ["good", "absent"])
    assert tags_of(run.folder) == ("a.b_c-1",)


def test_the_cached_summary_of_a_finished_run_has_the_tags_of_now(run: Recorded) -> None:
    for tag in ("one", "two"):
        add_tags(run.folder, [tag])
        assert tag in run_summary(run.folder).tags
    assert run.folder.summary.exists()
    remove_tags(run.folder, ["one"])
    assert run_summary(run.folder).tags == ("two",)


@pytest.mark.parametrize("text", ["", ".", "..", "-x", "a b", "a/b", "a\n", "ä", "x" * 41])
def test_an_invalid_tag_is_refused_and_none_is_added(run: Recorded, text: str) -> None:
    with pytest.raises(UsageError, match="is not a tag: use at most 40 letters"):
        check_tag(text)
    with pytest.raises(UsageError):
        add_tags(run.folder, ["fine", text])
    assert tags_of(run.folder) == ()


def test_tags_that_cannot_be_stored_are_an_error(run: Recorded) -> None:
    run.folder.tags.write_text("not a directory")
    with pytest.raises(HarnessError, match="tags: cannot be written"):
        add_tags(run.folder, ["good"])
    with pytest.raises(HarnessError, match="cannot be read"):
        run_summary(run.folder)
