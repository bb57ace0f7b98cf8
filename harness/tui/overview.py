"""What Home lists: attacks with their best recall on a round, and every run; read by polling, cached once over."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HarnessError
from harness.runs.discovery import AttackFile, find_attacks
from harness.runs.folder import RunFolder, all_run_folders
from harness.runs.status import Status
from harness.runs.summary import RunSummary, run_summary


@dataclass(frozen=True)
class Overview:
    """attacks: by name, broken ones with their error; runs: newest first; unreadable: ids of runs that cannot be read;
    fault: why the attacks could not be listed."""

    attacks: tuple[AttackFile, ...]
    runs: tuple[RunSummary, ...]
    unreadable: tuple[str, ...]
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
    """Reads what changed. Not thread-safe: one thread polls."""

    def __init__(self, attacks_folder: Path | None) -> None:
        self._attacks_folder = attacks_folder
        self._over: dict[str, tuple[tuple[int, ...], RunSummary]] = {}

    def poll(self) -> Overview:
        """What there is now."""
        fault: str | None = None
        attacks: tuple[AttackFile, ...] = ()
        try:
            attacks = find_attacks(self._attacks_folder)
        except HarnessError as error:
            fault = str(error)
        runs, unreadable = [], []
        for folder in _run_folders():
            try:
                runs.append(self._summary(folder))
            except (HarnessError, OSError, sqlite3.Error, ValueError, TypeError, LookupError):
                unreadable.append(folder.id)
        return Overview(attacks, tuple(runs), tuple(unreadable), fault)

    def _summary(self, folder: RunFolder) -> RunSummary:
        stamp = tuple(_changed_at(path) for path in (folder.store, folder.journal, folder.scorecard, folder.note))
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
    except OSError:
        # One of them went while they were sorted: the next look finds the others.
        return []
