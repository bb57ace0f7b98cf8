"""Home's two tables, the attacks and the runs: which rows, in which order, in which columns."""

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
_LONGEST_FIGURE = 28
_ATTACK_COLUMNS = ("attack", "best", "from", "what it does")
_RUN_COLUMNS = ("  run", "status", "attack", "round", "recall at cap", "elapsed / budget", "started")
# A run's id holds its attack and its round.
_RUN_COLUMNS_WHERE_NARROW = ("  run", "status", "recall", "elapsed", "started")
_SORTINGS: dict[str, tuple[Callable[[RunSummary], Any], bool]] = {
    "started": (lambda run: run.created_at, True),
    "recall": (lambda run: -1.0 if run.recall_at_cap is None else run.recall_at_cap, True),
    "attack": (lambda run: run.attack, False),
    "round": (lambda run: run.round, False),
    "status": (lambda run: run.status.value, False),
    "elapsed": (lambda run: run.elapsed_s, True),
}
"""What runs are sorted by, and whether the greatest come first; of equals the newest does."""
_SORTING_OF_COLUMN = {"recall at cap": "recall", "elapsed / budget": "elapsed"} | {name: name for name in _SORTINGS}
NEWEST_FIRST = "started"


class AttackTable(KeyedTable):
    """The attacks there are."""

    HELP = "Attacks, with their best recall on the chosen round (`b`). Enter fills in a new run; a broken one says why."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "screen.round", "Round", tooltip="Choose the round that best recalls are about"),
    ]

    def show(self, overview: Overview, *, round_name: str) -> None:
        """List the attacks, each with its best recall on the round."""
        self.fill(_ATTACK_COLUMNS, [_attack_row(attack, overview, round_name) for attack in overview.attacks])
        self.border_title = Content(f"attacks · best on {sanitize(round_name)}")


class RunTable(KeyedTable):
    """The runs so far."""

    HELP = (
        "Every run of this machine. Enter opens one, `p` packages it; Space marks it, and `c` compares the marked ones."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "screen.mark", "Mark", tooltip="Mark this run for a comparison"),
        Binding("p,P", "screen.package", "Package", tooltip="Package this run for its organizers"),
    ]

    def show(self, overview: Overview, *, wanted: str, sorting: str, marked: Set[str], is_narrow: bool) -> None:
        """List the runs that have `wanted` in them, and below them those that cannot be read."""
        chosen = _chosen(overview, wanted, sorting)
        rows = [_run_row(run, is_marked=run.id in marked, is_narrow=is_narrow) for run in chosen]
        columns = _RUN_COLUMNS_WHERE_NARROW if is_narrow else _RUN_COLUMNS
        unreadable = [_unreadable_row(id_, reason, len(columns)) for id_, reason in overview.unreadable.items()]
        self.fill(columns, [*rows, *unreadable])
        facts = [f"by {sorting}"]
        if len(chosen) < len(overview.runs):
            facts.append(f"{len(chosen)} of {len(overview.runs)} match, escape shows all")
        if marked:
            facts.append(f"{len(marked)} marked")
        if unreadable:
            facts.append(f"{len(unreadable)} cannot be read")
        self.border_title = " · ".join(["runs", *facts])


def sorting_after(sorting: str) -> str:
    """The next of the ways in which runs are sorted."""
    names = list(_SORTINGS)
    return names[(names.index(sorting) + 1) % len(names)]


def sorting_of_column(label: str) -> str:
    """What a column of this name sorts by."""
    return _SORTING_OF_COLUMN.get(label.strip(), NEWEST_FIRST)


def _chosen(overview: Overview, wanted: str, sorting: str) -> list[RunSummary]:
    runs = [
        run
        for run in overview.runs
        if wanted.casefold() in f"{run.id} {run.shown_attack} {run.round} {run.status} {run.note}".casefold()
    ]
    key, is_reversed = _SORTINGS[sorting]
    return sorted(runs, key=key, reverse=is_reversed)


def _attack_row(attack: AttackFile, overview: Overview, round_name: str) -> Row:
    best = overview.best_recall(attack.name, round_name)
    what = attack.summary if attack.error is None else f"broken: {attack.error}"
    cells = (attack.shown_name, "–" if best is None else f"{best:.3f}", attack.origin, what)
    return Row(str(attack.path), cells, "" if attack.error is None else "red")


def _run_row(run: RunSummary, *, is_marked: bool, is_narrow: bool) -> Row:
    name = f"{_MARK if is_marked else ' '} {run.id}"
    recall = _what_came_of_it(run)
    started = day_and_time(run.created_at)
    elapsed, budget = format_duration(run.elapsed_s), format_duration(run.budget_s)
    cells: tuple[str, ...] = (name, run.status.words, recall, elapsed, started)
    if not is_narrow:
        if run.recall_interval is not None:
            recall += " [{:.3f}, {:.3f}]".format(*run.recall_interval)
        cells = (name, run.status.words, run.shown_attack, run.round, recall, f"{elapsed} / {budget}", started)
    return Row(run.id, cells, "bold" if is_marked else "")


def _what_came_of_it(run: RunSummary) -> str:
    """The recall; of an audit its first figure, by name."""
    for name, value in run.figures.items():
        return shorten(f"{name} {'–' if value is None else f'{value:.3g}'}", _LONGEST_FIGURE)
    return "blind" if run.is_blind else "–" if run.recall_at_cap is None else f"{run.recall_at_cap:.3f}"


def _unreadable_row(id_: str, reason: str, columns: int) -> Row:
    cells = (f"  {id_}", "unreadable", reason)
    return Row(id_, (*cells, *[""] * (columns - len(cells))), "red")
