"""Find the recorded runs that match some conditions."""

from collections.abc import Callable, Collection, Iterator

from harness.core.errors import HarnessError
from harness.runs.folder import all_run_folders
from harness.runs.summary import RunSummary, run_summary


def matching_summaries(
    *,
    on_error: Callable[[str], object],
    kind: str | None = None,
    statuses: Collection[str] | None = None,
    attack: str | None = None,
    round_: str | None = None,
    tags: Collection[str] | None = None,
    parent: str | None = None,
) -> Iterator[RunSummary]:
    """Yield the summaries of the runs that meet every condition that is given, newest first.

    kind: `attack` or `audit`. statuses: one of them. tags: all of them. parent: a group, a tuning or a sweep. A run
    that cannot be read is left out, and `on_error` gets the sentence that says why.
    """
    for folder in all_run_folders():
        try:
            summary = run_summary(folder)
        except HarnessError as error:
            on_error(f"{folder.id}: {error}")
            continue
        if (
            kind in (None, summary.kind)
            and (not statuses or summary.status in statuses)
            and attack in (None, summary.attack)
            and round_ in (None, summary.round)
            and set(tags or ()) <= set(summary.tags)
            and parent in (None, summary.parent)
        ):
            yield summary
