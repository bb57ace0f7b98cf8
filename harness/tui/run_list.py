"""The list of runs: filter, order, groups and rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from harness.core.text import format_score, pluralize, shorten
from harness.core.times import day_and_time, format_duration
from harness.runs.columns import COLUMNS, recall_text
from harness.runs.facts import recall_label
from harness.runs.status import Status
from harness.runs.summary import RunSummary
from harness.tui.columns import GLYPHS, Cell, Column, Row, Span, bar
from harness.tui.tables import CellsOf, row_of

HEADING = "group "
"""The beginning of the key of a heading."""
_WORK_CELLS = 6
STATUS_CELLS = 29
"""The width to which a column of statuses may shrink: that of `━━━━━━ 99% ETA about 11:05:00`."""
_SHOWN = [column for column in COLUMNS if column.priority == 1]
_SORTED = {column.title: (column.sort_key, column.is_descending) for column in COLUMNS if column.sort_key is not None}
"""The columns that the list can be sorted by; runs with equal values are listed newest first."""
NEWEST_FIRST = "started"
_WIDTHS: dict[str, dict[str, Any]] = {
    "run": {"min_width": 8},
    "status": {"min_width": STATUS_CELLS},
    "started": {"width": 14},
    "note": {"min_width": 8, "fills": True},
}
"""The layout of columns that are not as wide as their widest cell, by title."""
BASELINE = "baseline"
"""The attack that every run is compared with."""


@dataclass(frozen=True)
class ListState:
    """The filter, order and groups of the list.

    marked: ids of runs.
    toggled: keys of the groups that the user opened or closed.
    """

    query: str = ""
    round: str | None = None
    sort_key: str = NEWEST_FIRST
    marked: frozenset[str] = frozenset()
    toggled: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_descending(self) -> bool:
        """True if the highest value comes first."""
        return _SORTED[self.sort_key][1]

    def sorted_next(self) -> "ListState":
        """Return the state with the next order."""
        names = list(dict.fromkeys((NEWEST_FIRST, "recall", *_SORTED)))
        return replace(self, sort_key=names[(names.index(self.sort_key) + 1) % len(names)])


class RunRows(NamedTuple):
    """The table: its columns, its rows, and how many runs match the filter."""

    columns: tuple[Column, ...]
    rows: list[Row]
    matches: int


def list_rows(runs: Sequence[RunSummary], unreadable: Mapping[str, str], state: ListState) -> RunRows:
    """Return the table of the attack runs that match, newest first unless sorted, with a heading for each group."""
    matching = [run for run in runs if matches(run, state)]
    matching.sort(key=_SORTED[state.sort_key][0], reverse=state.is_descending)
    scale = max([0.05, *(_highest(run) for run in matching)])
    groups = _groups(matching, state)
    visible = [run for group in groups if group.is_open for run in group.runs]
    columns = _columns(visible or matching, state.marked, scale)
    rows = [row for group in groups for row in _rows_of(group, columns)]
    if not state.query:
        rows += [_unreadable_row(id_, reason) for id_, reason in unreadable.items()]
    return RunRows(tuple(columns), rows, len(matching))


def matches(run: RunSummary, state: ListState) -> bool:
    """Return True if the run is in the chosen round and has every word of the filter.

    A word such as `status:running`, `round:demo`, `attack:base`, `tag:best` or `group:NAME` is about one field, any
    other about all.
    """
    if state.round is not None and run.round != state.round:
        return False
    fields = {
        "status": run.status.words,
        "round": run.round,
        "attack": run.attack,
        "tag": " ".join(run.tags),
        "group": run.parent or "",
        "id": run.id,
        "note": f"{run.note} {run.changed_text}",
    }
    for word in state.query.casefold().split():
        name, colon, value = word.partition(":")
        texts = [fields[name]] if colon and name in fields else list(fields.values())
        if not any((value if len(texts) == 1 else word) in text.casefold() for text in texts):
            return False
    return True


def interval_bar(
    value: float | None, interval: Sequence[float | None] | None, *, scale: tuple[float, float], colour: str
) -> Cell:
    """Return a cell with `value` as a dot and its interval as a line, on a scale that all rows share.

    A missing bound is the value. The cell of a missing value is empty.
    """
    if value is None:
        return ""
    start, end = scale
    low, high = (value if bound is None else bound for bound in interval or (None, None))

    def draw(width: int) -> list[Span]:
        first, dot, last = (
            min(width - 1, max(0, round((place - start) / (end - start) * (width - 1)))) for place in (low, value, high)
        )
        line = (" " * first + "─" * (last - first + 1)).ljust(width)
        return [(line[:dot], colour), ("●", f"bold {colour}"), (line[dot + 1 :], colour)]

    return draw


def scale_title(low: float, high: float) -> Callable[[int], str]:
    """Return the title of a column of interval bars: a line between the ends of the scale."""
    left, right = f"{low:.2g}", f"{high:.2g}"
    return lambda width: f"{left}{right:─>{max(len(right), width - len(left))}}"


def best_other(run: RunSummary, runs: Iterable[RunSummary], *, any_limit: bool = False) -> RunSummary | None:
    """Return the best run of the baseline on the same examples, or else of any attack; None without another run.

    any_limit: a run on more or fewer examples of the round counts too.
    """
    scored = [
        candidate
        for candidate in runs
        if candidate.id != run.id
        and (candidate.round, candidate.is_blind) == (run.round, False)
        and (any_limit or candidate.is_partial == run.is_partial)
        and candidate.known_recall is not None
    ]
    baseline = [candidate for candidate in scored if candidate.attack == BASELINE]
    return max(baseline or scored, key=lambda candidate: candidate.known_recall or 0.0, default=None)


def status_cell(run: RunSummary) -> list[Span]:
    """Return the progress and the ETA of a run at work, or how it ended."""
    meaning = GLYPHS[run.status][1]
    if run.status is Status.RUNNING and run.progress is not None:
        done, left = bar(run.progress, _WORK_CELLS)
        is_late = run.eta_s is not None and run.eta_s > run.left_s
        eta = f"late: {format_duration(run.eta_s or 0.0)}" if is_late else run.eta_text
        return [(done, meaning), (left, "dim"), (f" {run.progress:.0%} {eta}".rstrip(), "warning" if is_late else "")]
    if run.queue_position is not None:
        wait = "" if run.wait_at_most_s is None else f" ≤ {format_duration(run.wait_at_most_s)}"
        if run.wait_about_s is not None:
            time, before = format_duration(run.wait_about_s), pluralize(run.queue_position - 1, "run")
            wait = f" about {time}" if run.queue_position == 1 else f" {time} +{before}"
        return [(f"queued {run.queue_position}/{run.queue_length}{wait}", meaning)]
    return [(run.status.words, meaning)]


def run_name(run: RunSummary) -> str:
    """Return the short name of a run: the random letters that its id begins with, and its tags."""
    return " ".join([run.id.partition("-")[0], *run.tags])


def _highest(run: RunSummary) -> float:
    recall = run.known_recall or 0.0
    return recall if run.recall_interval is None or not run.guesses else run.recall_interval[1]


def _columns(runs: Sequence[RunSummary], marked: Set[str], scale: float) -> CellsOf[RunSummary]:
    """Return the columns: those of COLUMNS, and behind the recall its interval."""
    caps = {run.error_cap for run in runs if run.error_cap}
    # A run that works has a long status, which is more important than the parameters.
    attack = {"min_width": 22 if all(run.status.is_over for run in runs) else 16}
    titles = {"recall": recall_label(caps.pop() if len(caps) == 1 else 0)}
    cells: dict[str, Callable[[RunSummary], Cell]] = {
        "run": lambda run: [
            ("● " if run.id in marked else "  " if marked else "", "bold active"),
            GLYPHS[run.status],
            (f" {run_name(run)}", "bold"),
        ],
        "attack": lambda run: [
            (run.attack, ""),
            *((f" {mark}", "warning") for mark in _marks(run)),
            (f" {run.changed_text}" if run.changed else "", "dim"),
        ],
        "status": status_cell,
        "recall": lambda run: [(recall_text(run), "dim" if run.known_recall is None else "bold")],
        "time": lambda run: format_duration(run.elapsed_s),
        "started": lambda run: [(day_and_time(run.created_at), "dim")],
        "note": lambda run: [(run.note, "dim")],
    }
    drawn: CellsOf[RunSummary] = {
        Column(scale_title(0.0, scale), width=24, min_width=10, sort_key="recall"): lambda run: interval_bar(
            run.known_recall, run.recall_interval, scale=(0.0, scale), colour="good"
        ),
    }
    columns: dict[Column, Callable[[RunSummary], Cell]] = {}
    for fact in _SHOWN:
        name = fact.title
        layout = attack if name == "attack" else _WIDTHS.get(name, {})
        sort_key = name if name in _SORTED else ""
        column = Column(titles.get(name, name), is_right=fact.is_right, sort_key=sort_key, **layout)
        columns |= {column: cells.get(name, fact.text), **(drawn if name == "recall" else {})}
    return columns


class _Group(NamedTuple):
    key: str
    title: str
    is_open: bool
    runs: list[RunSummary]


def _groups(runs: Sequence[RunSummary], state: ListState) -> list[_Group]:
    """Return the runs of each tuning or group, and the others by round, in the order of the first run of each.

    Tunings and groups are closed at first, rounds are open.
    """
    runs_by_key: dict[str, list[RunSummary]] = {}
    for run in runs:
        runs_by_key.setdefault(f"{HEADING}{run.parent or run.round}", []).append(run)
    if len(runs_by_key) < 2:
        return [_Group("", "", True, list(runs))]
    groups = []
    for key, members in runs_by_key.items():
        parent, round_name = members[0].parent, members[0].round
        title = round_name if parent is None else f"{parent} on {round_name.partition(':')[0]}"
        groups.append(_Group(key, title, (key in state.toggled) is (parent is not None), members))
    return groups


def _rows_of(group: _Group, columns: CellsOf[RunSummary]) -> list[Row]:
    rows = [row_of(columns, run.id, run) for run in group.runs] if group.is_open else []
    if not group.key:
        return rows
    whole = [run for run in group.runs if not run.is_partial and run.known_recall is not None]
    best = max(whole, key=lambda run: run.known_recall or 0.0, default=None)
    # The runs of a tuning attack one fold each.
    fold = " fold" if ":" in group.runs[0].round else ""
    recall = "" if best is None else f", best{fold} {recall_label(best.error_cap)} {format_score(best.known_recall)}"
    facts = pluralize(len(group.runs), "run") + recall
    working = [run for run in group.runs if run.status in (Status.STARTING, Status.RUNNING, Status.FINISHING)]
    if working and not group.is_open:
        facts += f", {len(working)} running"
        if working[0].progress is not None:
            facts += f": {working[0].progress:.0%} {working[0].eta_text}".rstrip()
    title = f"{'▾' if group.is_open else '▸'} {group.title}"
    return [Row(group.key, [[(title, "bold"), (f"  {facts}", "dim")]], spans=True), *rows]


def _marks(run: RunSummary) -> list[str]:
    marks = {"partial": run.is_partial, "control": run.is_control, "blind": run.is_blind}
    return [name for name, is_so in marks.items() if is_so]


def _unreadable_row(id_: str, reason: str) -> Row:
    return Row(id_, [[("✗ ", "bad"), (id_, "bold"), (f"  unreadable: {shorten(reason, 200)}", "bad")]], spans=True)
