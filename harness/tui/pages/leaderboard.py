"""The page of the leaderboard: the bundles in ./submissions, ranked on the chosen round."""

import contextlib
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.files import file_version
from harness.core.settings import default_round
from harness.core.text import NO_VALUE, format_score
from harness.core.times import format_duration
from harness.submit.verdict import produced_path, verdict_path
from harness.tui.columns import Cell, Column, Row
from harness.tui.overview import Overview
from harness.tui.pages import Page
from harness.tui.run_list import interval_bar, scale_title
from harness.tui.saved_state import load_round_choice
from harness.tui.subprocesses import run_command
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel

_FOLDER = Path("submissions")
_REFERENCE = "baseline"
_LOOK_SECONDS = 1.0


def _columns(scale: float) -> tuple[Column, ...]:
    return (
        Column("", width=3, is_right=True),
        Column("team", min_width=10),
        Column("attack", min_width=10),
        Column("recall", is_right=True),
        Column(scale_title(0.0, scale), width=24, min_width=10),
        Column("− leader", min_width=8),
        Column("time", is_right=True),
        Column("verified", min_width=8, fills=True),
    )


class LeaderboardPage(Page):
    """The ranked bundles of one round."""

    HELP = "The bundles in ./submissions, ranked. A tie has a difference to the leader whose interval contains zero."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "rank", "Rank again", tooltip="Read the bundles and rank them again"),
    ]

    def __init__(self) -> None:
        super().__init__(id="leaderboard-page")
        self._round: str | None = None
        self._overview: Overview | None = None
        self._ranked: tuple[object, ...] = ()

    def compose_panels(self) -> ComposeResult:
        yield Panel(ListTable(id="entries", sorts=True), id="entry-list", label="Leaderboard")

    def on_mount(self) -> None:
        self.set_interval(_LOOK_SECONDS, self._look)

    def show(self, overview: Overview, *, round_name: str | None) -> None:
        """Rank the bundles of the round."""
        self._overview, self._round = overview, round_name or default_round()
        self._look()

    def _look(self) -> None:
        """Rank again if the round or a bundle has changed."""
        if self._round is None or not self.display:
            return
        bundles = _bundle_files()
        if not bundles:
            self._empty(f"no bundles in ./{_FOLDER}. p on a run packages it")
        elif (self._round, bundles) != self._ranked:
            self._ranked = (self._round, bundles)
            self.action_rank()

    def action_rank(self) -> None:
        if self._round is not None:
            self._empty("ranking …")
            # The command takes a name or a file; the name of a round in a file cannot be loaded.
            self._rank(load_round_choice() or self._round)

    @work(thread=True, exclusive=True, group="rank")
    def _rank(self, round_name: str) -> None:
        worker = get_current_worker()
        try:
            answer = run_command(
                ["bundle", "rank", str(_FOLDER), "--round", round_name],
                on_progress=lambda line: self.call_later(self._empty, line),
            )
        except HarnessError as error:
            self.call_later(self._empty, str(error))
            return
        if answer is not None and not worker.is_cancelled:
            self.call_later(self._show_entries, answer)

    def _empty(self, reason: str) -> None:
        self.query_one("#entry-list", Panel).show_empty(reason)

    def _show_entries(self, answer: dict[str, Any]) -> None:
        self._empty("")
        title = f"Leaderboard · {answer['round']} · Recall@{answer['error_cap']}"
        self.query_one("#entry-list", Panel).set_title(title)
        entries = answer["entries"]
        scale = max([0.05, *(entry["recall_interval"][1] for entry in entries if entry["recall_interval"])])
        rows = [_row(entry, scale) for entry in entries]
        best = None if self._overview is None else self._overview.best_recall(_REFERENCE, answer["round"])
        if best is not None:
            line = f"── best run of {_REFERENCE} here: {format_score(best)} ──"
            above = sum((entry["recall_at_cap"] or 0.0) >= best for entry in entries)
            rows.insert(above, Row("reference", [[(line, "dim")]], spans=True))
        self.query_one(ListTable).show(_columns(scale), rows)


def _bundle_files() -> tuple[tuple[Path, tuple[int, ...]], ...]:
    """Return each bundle and the files of its verification, with its version."""
    files = []
    for bundle in sorted(_FOLDER.glob("*.zip")):
        for file in (bundle, verdict_path(bundle), produced_path(bundle)):
            with contextlib.suppress(OSError):  # deleted since the search, or not verified
                files.append((file, file_version(file)))
    return tuple(files)


def _row(entry: dict[str, Any], scale: float) -> Row:
    if entry["unranked"]:
        return Row(entry["bundle"], [[(f"    {entry['bundle']}: {entry['unranked']}", "bad")]], spans=True)
    recall, bounds, difference = entry["recall_at_cap"], entry["recall_interval"], entry["difference"]
    cells: list[Cell] = [
        str(entry["place"] or NO_VALUE),
        [(entry["team"], "bold")],
        entry["attack"],
        [(format_score(recall), "bold")],
        "" if bounds is None else interval_bar(recall, *bounds, scale=(0.0, scale), colour="good"),
        [
            ("tie " if entry["ties"] else "", "warning"),
            ("" if difference is None else format_score(difference, is_signed=True), ""),
        ],
        NO_VALUE if entry["elapsed_s"] is None else format_duration(entry["elapsed_s"]),
        [(entry["verified"], "good" if entry["verified"] == "reproduced" else "dim")],
    ]
    return Row(entry["bundle"], cells)
