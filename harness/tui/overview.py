"""The data of Home: all attacks and all runs, read by polling; the summary of a run that is over is cached."""

import time
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.text import shorten
from harness.plugins.discovery import AttackFile, find_attacks
from harness.runs.folder import RunFolder, all_run_folders
from harness.runs.status import Status
from harness.runs.summary import RunSummary, run_summary

_ATTACKS_SECONDS = 30.0
"""How long the list of attacks is used without a change of a file: packages that they require may be installed."""


@dataclass(frozen=True)
class Overview:
    """All attacks and runs at one moment.

    attacks: by name, broken ones with their error; runs: newest first; unreadable: why a run cannot be read, by its id;
    fault: why the attacks cannot be listed.
    """

    attacks: tuple[AttackFile, ...]
    runs: tuple[RunSummary, ...]
    unreadable: dict[str, str]
    fault: str | None = None

    def best_recall(self, attack: str, round_name: str) -> float | None:
        """Return the best recall at the error cap of all runs of `attack` on the whole round."""
        runs = (run for run in self.runs if (run.attack, run.round, run.is_partial) == (attack, round_name, False))
        return max((run.recall_at_cap for run in runs if run.recall_at_cap is not None), default=None)


class OverviewFeed:
    """Reads what has changed. One thread calls `poll`; any thread may call `attacks_changed`."""

    def __init__(self, attacks_folder: Path | None) -> None:
        self._attacks_folder = attacks_folder
        self._attacks: tuple[AttackFile, ...] = ()
        self._attacks_fault: str | None = None
        self._next_listing = 0.0
        self._summaries: dict[str, tuple[tuple[int, ...], RunSummary]] = {}
        """Summaries of runs that are over, with the modification times of the files that they were read from."""

    def poll(self) -> Overview:
        """Return all attacks and runs as they are now."""
        if time.monotonic() >= self._next_listing:
            # Before the listing: a file that changes meanwhile is listed again.
            self._next_listing = time.monotonic() + _ATTACKS_SECONDS
            self._list_attacks()
        runs, unreadable = [], dict[str, str]()
        for folder in _run_folders():
            try:
                runs.append(self._summary(folder))
            except HarnessError as error:
                unreadable[folder.id] = shorten(str(error), 200)
        return Overview(self._attacks, tuple(runs), unreadable, self._attacks_fault)

    def attacks_changed(self) -> None:
        """List the attacks again at the next poll."""
        self._next_listing = 0.0

    def _list_attacks(self) -> None:
        try:
            self._attacks, self._attacks_fault = find_attacks(self._attacks_folder), None
        except HarnessError as error:
            self._attacks, self._attacks_fault = (), str(error)

    def _summary(self, folder: RunFolder) -> RunSummary:
        modified = tuple(_modified_at(path) for path in folder.record)
        cached = self._summaries.get(folder.id)
        if cached is not None and cached[0] == modified:
            return cached[1]
        summary = run_summary(folder)
        # A lost run is not cached: a new supervisor is alive before it writes to the store.
        if summary.status.is_over and summary.status is not Status.LOST:
            self._summaries[folder.id] = (modified, summary)
        return summary


def _modified_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _run_folders() -> list[RunFolder]:
    try:
        return all_run_folders()
    except HarnessError:
        # The next poll tries again.
        return []
