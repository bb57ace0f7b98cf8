"""The data of the main screen: all attacks and runs, read by polling."""

import contextlib
import time
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.files import file_version
from harness.core.text import shorten
from harness.plugins.discovery import AttackFile, attack_folders, find_attacks
from harness.runs.folder import RunFolder, all_run_folders
from harness.runs.status import Status
from harness.runs.summary import RecordState, RunSummary, record_state, run_summary
from harness.runs.tags import tags_of

_ATTACKS_SECONDS = 30.0
"""Seconds after which the list of attacks is read again even if no file changed, because packages may be installed."""


_SourceState = tuple[Path, tuple[int, ...]]
"""A source file with its inode, time of modification and size, one of which changes when it is saved."""


@dataclass(frozen=True)
class Overview:
    """All attacks and runs at one moment.

    attacks: by name, broken ones with their error.
    runs: newest first.
    unreadable: why a run cannot be read, by its id.
    fault: why the attacks cannot be listed.
    attacks_folder: of `--attacks`.
    round_choice: the round of the lists and of new runs, by name or file; None for all rounds.
    round_name: its name.
    """

    attacks: tuple[AttackFile, ...]
    runs: tuple[RunSummary, ...]
    unreadable: dict[str, str]
    fault: str | None = None
    attacks_folder: Path | None = None
    round_choice: str | None = None
    round_name: str | None = None

    def best_recall(self, attack: str, round_name: str | None) -> float | None:
        """Return the best recall at the error cap of all runs of `attack` on the whole round; None without one."""
        runs = (run for run in self.runs if (run.attack, run.round, run.is_partial) == (attack, round_name, False))
        return max((run.known_recall for run in runs if run.known_recall is not None), default=None)


class OverviewFeed:
    """Reads what has changed. One thread calls `poll`."""

    def __init__(self, attacks_folder: Path | None) -> None:
        self._attacks_folder = attacks_folder
        self._attacks: tuple[AttackFile, ...] = ()
        self._attacks_fault: str | None = None
        self._next_listing = 0.0
        self._sources: frozenset[_SourceState] = frozenset()
        self._summaries: dict[str, tuple[RecordState, RunSummary]] = {}
        """Summaries of runs that are over, with the state of the record that they were read from."""

    def poll(self) -> Overview:
        """Return all attacks and runs as they are now."""
        # Before the listing: a file that changes meanwhile is listed again.
        sources = _source_states(self._attacks_folder)
        if sources != self._sources or time.monotonic() >= self._next_listing:
            self._sources = sources
            self._next_listing = time.monotonic() + _ATTACKS_SECONDS
            try:
                self._attacks, self._attacks_fault = find_attacks(self._attacks_folder), None
            except HarnessError as error:
                self._attacks, self._attacks_fault = (), str(error)
        runs, unreadable = [], dict[str, str]()
        # If the directory of runs cannot be listed, the next poll tries again.
        with contextlib.suppress(HarnessError):
            for folder in all_run_folders():
                try:
                    runs.append(self._summary(folder))
                except HarnessError as error:
                    unreadable[folder.id] = shorten(str(error), 200)
        return Overview(self._attacks, tuple(runs), unreadable, self._attacks_fault, self._attacks_folder)

    def _summary(self, folder: RunFolder) -> RunSummary:
        state = record_state(folder)
        cached = self._summaries.get(folder.id)
        if cached is not None and cached[0] == state:
            # A change of the tags changes no file of the record.
            return cached[1] if (tags := tags_of(folder)) == cached[1].tags else replace(cached[1], tags=tags)
        summary = run_summary(folder, state)
        # A lost run is not cached: a new supervisor is alive before it writes to the store.
        if summary.status.is_over and summary.status is not Status.LOST:
            self._summaries[folder.id] = (state, summary)
        return summary


def _source_states(extra: Path | None) -> frozenset[_SourceState]:
    """Return the state of each file in the directories of attacks."""
    states = set()
    for folder in attack_folders(extra):
        for file in folder.glob("*.py"):
            with contextlib.suppress(OSError):  # deleted meanwhile
                states.add((file, file_version(file)))
    return frozenset(states)
