"""What Home lists: attacks with their best recall on a round, and every run; read by polling, cached once over."""

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
"""How long a list of attacks is good for without word of a change: what they require may have been installed."""


@dataclass(frozen=True)
class Overview:
    """attacks: by name, broken ones with their error; runs: newest first; unreadable: why the others cannot be read, by
    id; fault: why the attacks could not be listed."""

    attacks: tuple[AttackFile, ...]
    runs: tuple[RunSummary, ...]
    unreadable: dict[str, str]
    fault: str | None = None

    def best_recall(self, attack: str, round_name: str) -> float | None:
        """The best recall at the cap that a whole run of `attack` has reached on the round."""
        return max(
            (
                run.recall_at_cap
                for run in self.runs
                if run.attack == attack
                and run.round == round_name
                and not run.is_partial
                and run.recall_at_cap is not None
            ),
            default=None,
        )


class OverviewFeed:
    """Reads what changed. One thread polls; any may say that attacks changed."""

    def __init__(self, attacks_folder: Path | None) -> None:
        self._attacks_folder = attacks_folder
        self._attacks: tuple[AttackFile, ...] = ()
        self._attacks_fault: str | None = None
        self._attacks_due = 0.0
        self._over: dict[str, tuple[tuple[int, ...], RunSummary]] = {}

    def poll(self) -> Overview:
        """What there is now."""
        if time.monotonic() >= self._attacks_due:
            # Before they are listed: what changes meanwhile is listed again.
            self._attacks_due = time.monotonic() + _ATTACKS_SECONDS
            self._list_attacks()
        runs, unreadable = [], dict[str, str]()
        for folder in _run_folders():
            try:
                runs.append(self._summary(folder))
            except HarnessError as error:
                unreadable[folder.id] = shorten(str(error), 200)
        return Overview(self._attacks, tuple(runs), unreadable, self._attacks_fault)

    def attacks_changed(self) -> None:
        """Let the next poll list the attacks anew."""
        self._attacks_due = 0.0

    def _list_attacks(self) -> None:
        try:
            self._attacks, self._attacks_fault = find_attacks(self._attacks_folder), None
        except HarnessError as error:
            self._attacks, self._attacks_fault = (), str(error)

    def _summary(self, folder: RunFolder) -> RunSummary:
        stamp = tuple(_changed_at(path) for path in folder.record)
        known = self._over.get(folder.id)
        if known is not None and known[0] == stamp:
            return known[1]
        summary = run_summary(folder)
        # A lost run is not cached: a supervisor that takes it up shows in the processes before it shows in the store.
        if summary.status.is_over and summary.status is not Status.LOST:
            self._over[folder.id] = (stamp, summary)
        return summary


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _run_folders() -> list[RunFolder]:
    try:
        return all_run_folders()
    except HarnessError:
        # The next look may find them.
        return []
