"""The page of the leaderboard: the bundles in ./submissions, ranked on the chosen round."""

import contextlib
import shlex
import time
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.files import file_version
from harness.core.text import NO_VALUE, format_interval, format_score
from harness.core.times import format_duration
from harness.submit.verdict import produced_path, verdict_path
from harness.tui.columns import Column, Row
from harness.tui.dialog_results import if_answered
from harness.tui.overview import Overview
from harness.tui.pages import Page
from harness.tui.run_list import BASELINE, interval_bar, scale_title
from harness.tui.subprocesses import run_command
from harness.tui.tables import CellsOf, table_of
from harness.tui.widgets.bars import Facts
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel
from harness.tui.widgets.plot_view import PlotView, plot_of_curves

_FOLDER = Path("submissions")
_EMPTY = f"No bundles in ./{_FOLDER}. A bundle is a team's submission with its code. p on a run packages it."
_NO_ROUND = "The bundles of one round are ranked. b chooses the round."
_SIGNS = {True: "✓", None: "·", False: "✗"}


class LeaderboardPage(Page):
    """The ranked bundles of one round, and what is claimed and verified about the one under the cursor."""

    HELP = (
        "The bundles in ./submissions, ranked. Enter goes to the checks of a bundle. v runs its code again, also after "
        "you quit. A tie has a difference to the leader whose interval contains zero."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "rank", "Rank again", tooltip="Read the bundles and rank them again"),
        Binding("v", "verify", "Verify", tooltip="Choose how to run the code of the bundle again"),
        Binding("s", "stop", "Stop", tooltip="Stop the verification of the bundle"),
    ]

    def __init__(self) -> None:
        super().__init__(id="leaderboard-page")
        self._overview: Overview | None = None
        self._ranked: tuple[object, ...] = ()
        self._round = ""
        self._answer: dict[str, Any] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._verifications: dict[str, tuple[float, Event]] = {}
        """The start of each verification at work, and the event that stops it, by bundle."""

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="ranked"):
                yield Panel(ListTable(id="entries", sorts=True, opens=True), id="entry-list", label="Leaderboard")
                yield Panel(PlotView(id="entry-plot"), id="entry-curve", label="Curve", title="Recall vs. errors")
            yield Panel(VerticalScroll(Facts(id="entry-text")), id="entry", label="Bundle")

    def on_mount(self) -> None:
        self.query_one("#entry", Panel).show_empty("none")
        self.set_interval(1.0, self._look)

    def show(self, overview: Overview) -> None:
        """Rank the bundles of the round."""
        self._overview = overview
        self._look()

    def _look(self) -> None:
        """Rank again if the round or a bundle has changed."""
        if self._overview is None or not self.display:
            return
        bundles, choice = _bundle_files(), self._overview.round_choice
        if not bundles or choice is None:
            self._ranked = ()
            self.table.show((), ())
            self._forget(_NO_ROUND if bundles else _EMPTY)
        elif (choice, bundles) != self._ranked:
            self._ranked = (choice, bundles)
            self.action_rank()
        elif self._verifications and self._answer:
            self._show_entries(self._answer)

    def action_rank(self) -> None:
        if self._overview is not None and self._overview.round_choice is not None:
            if self._overview.round_choice != self._round:
                self._forget()
            self._show_progress("ranking …")
            self._round = self._overview.round_choice
            self._rank(self._round)

    def _forget(self, sentence: str = "") -> None:
        """Forget the ranking, and show a sentence in its place."""
        self.workers.cancel_group(self, "rank")
        self._answer, self._entries = {}, {}
        self._show_entry()
        self.show_nothing(sentence)
        self.refresh_bindings()

    @work(thread=True, exclusive=True, group="rank")
    def _rank(self, round_name: str) -> None:
        worker = get_current_worker()
        try:
            answer = run_command(
                ["bundle", "rank", str(_FOLDER), "--round", round_name],
                on_progress=lambda line: self.call_later(self._show_progress, line),
                answer_codes=(0, 1),  # 1 if no bundle is ranked
            )
        except HarnessError as error:
            self.call_later(self._forget, str(error))
            return
        if answer is not None and not worker.is_cancelled:
            self.call_later(self._show_entries, answer)

    def _show_progress(self, words: str) -> None:
        if self._entries:
            self.query_one("#entry-list", Panel).set_title(f"Leaderboard · {words}")
        else:
            self.show_nothing(words)

    def _show_entries(self, answer: dict[str, Any]) -> None:
        self.show_nothing("")
        self._answer = answer
        title = f"Leaderboard · {answer['round']} · Recall@{answer['error_cap']}"
        self.query_one("#entry-list", Panel).set_title(title)
        entries = self._entries = {entry["bundle"]: entry for entry in answer["entries"]}
        for bundle in entries.keys() & self._verifications:
            took = format_duration(time.monotonic() - self._verifications[bundle][0])
            entries[bundle]["verified"] = f"running {took}"
        ranked = {bundle: entry for bundle, entry in entries.items() if not entry["unranked"]}
        intervals = [entry["recall_interval"] for entry in ranked.values() if entry["recall_interval"]]
        columns, rows = table_of(_columns(max([0.05, *(high for _, high in intervals)])), ranked)
        best = None if self._overview is None else self._overview.best_recall(BASELINE, answer["round"])
        if best is not None:
            line = f"── best run of {BASELINE} here: {format_score(best)} ──"
            above = sum((entry["recall_at_cap"] or 0.0) >= best for entry in ranked.values())
            rows.insert(above, Row("reference", [[(line, "dim")]], spans=True))
        rows += [
            Row(bundle, [[(f"    {bundle}: {entry['unranked']}", "bad")]], spans=True)
            for bundle, entry in entries.items()
            if entry["unranked"]
        ]
        self.query_one(ListTable).show(columns, rows)
        self.refresh_bindings()
        self._show_entry()

    @on(ListTable.Highlighted, "#entries")
    def _show_entry(self) -> None:
        entry = self._entries.get(self.table.key_under_cursor or "")
        panel = self.query_one("#entry", Panel)
        panel.show_empty("no bundle under the cursor" if entry is None else "")
        if entry is not None:
            panel.set_title(entry["bundle"])
            checks = [(f"{_SIGNS[check['holds']]} {check['name']}", check["sentence"]) for check in entry["checks"]]
            self.query_one(Facts).show([*_facts(entry), ("", ""), *checks])
        leader = next(iter(self._entries.values()), None)
        shown = (row for row in (leader, entry) if row is not None and row["curve"])
        curves = [*{row["bundle"]: (f"{row['place']} {row['team']}", row["curve"]) for row in shown}.values()]
        title = " · ".join(["Recall vs. errors", *(label for label, _ in curves)])
        self.query_one("#entry-curve", Panel).set_title(title)
        self.query_one(PlotView).show(plot_of_curves(curves, self._answer["error_cap"]) if curves else "no curve")

    @on(ListTable.Opened, "#entries")
    def _open(self) -> None:
        """Go to the checks of the bundle, which a small terminal shows on a panel of their own."""
        if self.table.key_under_cursor in self._entries:
            self.go_to("entry")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer nothing without a bundle."""
        bundle = self.table.key_under_cursor
        if action in ("verify", "stop"):
            return bundle in self._entries and (bundle in self._verifications) is (action == "stop")
        return bool(self._ranked) if action == "rank" else super().check_action(action, parameters)

    def action_verify(self) -> None:
        from harness.tui.screens.verify import VerifyScreen

        if (entry := self._entries.get(self.table.key_under_cursor or "")) is not None:
            screen = VerifyScreen(_FOLDER / entry["bundle"], round_name=self._round, seconds=entry["elapsed_s"])
            self.app.push_screen(screen, if_answered(partial(self._start, entry["bundle"])))

    def action_stop(self) -> None:
        self._verifications[str(self.table.key_under_cursor)][1].set()

    def _start(self, bundle: str, command_line: str) -> None:
        self._verifications[bundle] = time.monotonic(), Event()
        self._look()
        self._verify(bundle, shlex.split(command_line), self._verifications[bundle][1])

    @work(thread=True, group="verify")
    def _verify(self, bundle: str, command: list[str], stopped: Event) -> None:
        try:
            answer = run_command(command, on_progress=lambda line: None, cancelled=stopped, answer_codes=(0, 1, 3))
            words = "the verification was stopped" if answer is None else str(answer["outcome"])
        except HarnessError as error:
            words = str(error).rstrip(".")
        self.call_later(self._end, bundle, words)

    def _end(self, bundle: str, words: str) -> None:
        del self._verifications[bundle]
        self.notify(f"{bundle}: {words}.")
        self.action_rank()


def _facts(entry: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is claimed and what is verified about a bundle."""
    interval, seconds = entry["recall_interval"], entry["elapsed_s"]
    facts = {
        "team": entry["team"],
        "attack": entry["attack"],
        "recall": f"{format_score(entry['recall_at_cap'])} {format_interval(*interval) if interval else ''}",
        "verified": entry["verified"],
        "time": "" if seconds is None else format_duration(seconds),
        "hardware": entry.get("hardware"),
        "accepted": ", ".join(entry.get("marks") or ()),
        "patch": entry.get("patch"),
        "not ranked": entry["unranked"],
    }
    return [(label, str(value)) for label, value in facts.items() if value]


def _bundle_files() -> tuple[tuple[Path, tuple[int, ...]], ...]:
    """Return each bundle and the files of its verification, with its version."""
    files = []
    for bundle in sorted(_FOLDER.glob("*.zip")):
        for file in (bundle, verdict_path(bundle), produced_path(bundle)):
            with contextlib.suppress(OSError):  # deleted since the search, or not verified
                files.append((file, file_version(file)))
    return tuple(files)


def _columns(scale: float) -> CellsOf[dict[str, Any]]:
    return {
        Column("", width=3, is_right=True): lambda entry: str(entry["place"] or NO_VALUE),
        Column("team", min_width=10): lambda entry: [(entry["team"], "bold")],
        Column("attack", min_width=10): lambda entry: entry["attack"],
        Column("recall", is_right=True): lambda entry: [(format_score(entry["recall_at_cap"]), "bold")],
        Column(scale_title(0.0, scale), width=24, min_width=8): lambda entry: interval_bar(
            entry["recall_at_cap"], entry["recall_interval"], scale=(0.0, scale), colour="good"
        ),
        Column("− leader", min_width=8): lambda entry: [
            ("tie " if entry["ties"] else "", "warning"),
            ("" if entry["difference"] is None else format_score(entry["difference"], is_signed=True), ""),
        ],
        Column("time", is_right=True): lambda entry: (
            NO_VALUE if entry["elapsed_s"] is None else format_duration(entry["elapsed_s"])
        ),
        Column("verified", min_width=12, fills=True): lambda entry: [
            (entry["verified"], "good" if entry["verified"] == "reproduced" else "dim")
        ],
    }
