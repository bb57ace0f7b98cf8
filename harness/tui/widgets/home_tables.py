"""The two tables of Home: which attacks and runs they list, in which order and with which columns."""

from collections.abc import Callable, Set
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from harness.core.text import sanitize, shorten
from harness.core.times import day_and_time, format_duration
from harness.plugins.discovery import AttackFile
from harness.runs.summary import RunSummary
from harness.tui.overview import Overview
from harness.tui.widgets.keyed_table import KeyedTable, Row

_MARK = "●"
_MAX_FIGURE = 28
_ATTACK_COLUMNS = ("attack", "best", "from", "summary")
_SORT_KEYS: dict[str, tuple[Callable[[RunSummary], Any], bool]] = {
    "started": (lambda run: run.created_at, True),
    "recall": (lambda run: -1.0 if run.recall_at_cap is None else run.recall_at_cap, True),
    "attack": (lambda run: run.attack, False),
    "round": (lambda run: run.round, False),
    "status": (lambda run: run.status.value, False),
    "elapsed": (lambda run: run.elapsed_s, True),
}
"""Each key, and whether the order is descending; runs with equal keys are listed newest first."""
NEWEST_FIRST = "started"


class AttackTable(KeyedTable):
    """All attacks."""

    HELP = "All attacks, with their best recall on the chosen round (`b`). Enter opens the form of a new run."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "screen.round", "Round", tooltip="Choose the round for best recalls and new runs"),
    ]

    def show(self, overview: Overview, *, round_name: str, error_cap: int | None) -> None:
        """List the attacks with their best recall on the round."""
        self.fill(_ATTACK_COLUMNS, [_attack_row(attack, overview, round_name) for attack in overview.attacks])
        metric = "recall" if error_cap is None else f"Recall@{error_cap}"
        self.border_title = Content(f"Attacks · best {metric} on {sanitize(round_name)}")


class RunTable(KeyedTable):
    """All runs."""

    HELP = "All runs on this machine. Enter opens a run, `p` packages it, Space marks it, `c` compares the marked runs."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "screen.mark", "Mark", tooltip="Mark this run for a comparison"),
        Binding("p,P", "screen.package", "Package", tooltip="Package this run for its organizers"),
    ]

    def show(self, overview: Overview, *, query: str, sort_key: str, marked: Set[str], is_narrow: bool) -> None:
        """List the runs that contain `query`, and below them those that cannot be read."""
        runs = _matching(overview, query, sort_key)
        rows = [_run_row(run, is_marked=run.id in marked, is_narrow=is_narrow) for run in runs]
        columns = _run_columns(overview, is_narrow=is_narrow)
        unreadable = [_unreadable_row(id_, reason, len(columns)) for id_, reason in overview.unreadable.items()]
        self.fill(columns, [*rows, *unreadable])
        facts = [f"by {sort_key}"]
        if len(runs) < len(overview.runs):
            facts.append(f"{len(runs)} of {len(overview.runs)} match, Escape shows all")
        if marked:
            facts.append(f"{len(marked)} marked")
        if unreadable:
            facts.append(f"{len(unreadable)} cannot be read")
        self.border_title = " · ".join(["Runs", *facts])


def next_sort_key(sort_key: str) -> str:
    """Return the sort key after this one."""
    names = list(_SORT_KEYS)
    return names[(names.index(sort_key) + 1) % len(names)]


def sort_key_of_column(label: str) -> str:
    """Return the sort key of the column with this label."""
    words = label.lower().replace("@", " ").split()
    return next((key for key in _SORT_KEYS if key in words), NEWEST_FIRST)


def _run_columns(overview: Overview, *, is_narrow: bool) -> tuple[str, ...]:
    caps = {run.error_cap for run in overview.runs if run.error_cap}
    recall = f"Recall@{caps.pop()}" if len(caps) == 1 else "Recall"
    # The id of a run contains its attack and its round.
    if is_narrow:
        return ("  run", "status", recall, "elapsed", "started")
    return ("  run", "status", "attack", "round", recall, "elapsed / budget", "started")


def _matching(overview: Overview, query: str, sort_key: str) -> list[RunSummary]:
    runs = [
        run
        for run in overview.runs
        if query.casefold() in f"{run.id} {run.shown_attack} {run.round} {run.status} {run.note}".casefold()
    ]
    key, is_descending = _SORT_KEYS[sort_key]
    return sorted(runs, key=key, reverse=is_descending)


def _attack_row(attack: AttackFile, overview: Overview, round_name: str) -> Row:
    best = overview.best_recall(attack.name, round_name)
    summary = attack.summary if attack.error is None else f"broken: {attack.error}"
    cells = (attack.shown_name, "–" if best is None else f"{best:.3f}", attack.origin, summary)
    return Row(str(attack.path), cells, "" if attack.error is None else "red")


def _run_row(run: RunSummary, *, is_marked: bool, is_narrow: bool) -> Row:
    name = f"{_MARK if is_marked else ' '} {run.id}"
    result = _result(run)
    started = day_and_time(run.created_at)
    elapsed, budget = format_duration(run.elapsed_s), format_duration(run.budget_s)
    cells: tuple[str, ...] = (name, run.status.words, result, elapsed, started)
    if not is_narrow:
        result += run.interval_text
        cells = (name, run.status.words, run.shown_attack, run.round, result, f"{elapsed} / {budget}", started)
    return Row(run.id, cells, "bold" if is_marked else "")


def _result(run: RunSummary) -> str:
    """Return the recall of a run, or the first figure of an audit."""
    for name, value in run.figures.items():
        return shorten(f"{name} {'–' if value is None else f'{value:.3g}'}", _MAX_FIGURE)
    return "blind" if run.is_blind else "–" if run.recall_at_cap is None else f"{run.recall_at_cap:.3f}"


def _unreadable_row(id_: str, reason: str, columns: int) -> Row:
    cells = (f"  {id_}", "unreadable", reason)
    return Row(id_, (*cells, *[""] * (columns - len(cells))), "red")
