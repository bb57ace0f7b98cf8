"""The page of the data: which files each round has and lacks, and how to fetch them."""

from pathlib import Path
from threading import Event
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from harness.core.errors import HarnessError
from harness.core.rounds import built_in_rounds
from harness.core.text import NO_VALUE
from harness.tui.columns import Column, Row, Span
from harness.tui.pages import Page
from harness.tui.saved_state import recent_rounds
from harness.tui.subprocesses import run_command
from harness.tui.tables import CellsOf, row_of, table_of
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel

_MEANINGS = {"present": "good", "missing": "warning", "wrong": "bad"}
_DATA_SET = "satml"
_FILE_COLUMNS: CellsOf[dict[str, Any]] = {
    Column("file", min_width=12): lambda file: Path(file["path"]).name,
    Column("state"): lambda file: [(file["state"], _MEANINGS[file["state"]])],
    Column("rows", is_right=True): lambda file: f"{file['shape'][0]:,}" if file["shape"] else NO_VALUE,
    Column("use", min_width=12, fills=True): lambda file: [
        (file["fault"] or ", ".join(field.removesuffix("_file").replace("_", " ") for field in file["fields"]), "dim")
    ],
}
_ROUND_COLUMNS: CellsOf[dict[str, Any]] = {
    Column("round", min_width=10): lambda state: [(state["label"], "bold")],
    Column("examples", is_right=True): lambda state: f"{state['examples']:,}" if state.get("examples") else NO_VALUE,
    Column("files", min_width=10): lambda state: [_completeness(state)],
    Column("answers", min_width=8, fills=True): lambda state: [(_answers(state), "dim")],
}


class DataPage(Page):
    """All rounds at the left, the files of one at the right."""

    HELP = "The rounds and their files. `f` fetches the public files of the SaTML 2023 challenge."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "fetch", "Fetch SaTML", tooltip="Fetch the public files of the SaTML challenge"),
        Binding("r", "check", "Check again", tooltip="Check the files of all rounds again"),
    ]

    def __init__(self) -> None:
        super().__init__(id="data-page")
        self._states: dict[str, dict[str, Any]] = {}
        self._cancelled = Event()

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            yield Panel(ListTable(id="rounds", sorts=True), id="round-list", label="Rounds")
            yield Panel(ListTable(id="files", sorts=True), id="file-list", label="Files")

    def on_mount(self) -> None:
        self.query_one("#file-list", Panel).show_empty("checking …")
        self.action_check()

    def action_check(self) -> None:
        self._show_progress("checking …")
        self._check(recent_rounds())

    @work(thread=True, exclusive=True, group="check")
    def _check(self, rounds: list[str]) -> None:
        """Check the built-in rounds at once, and then each of the rounds that are files."""
        states: dict[str, dict[str, Any]] = {}
        for names in ([], *([name] for name in rounds if name not in built_in_rounds())):
            label = "".join(names) or "built-in rounds"
            try:
                answer = run_command(["data", "status", *names], on_progress=lambda line: None) or {}
                states |= {label: answer} if names else {state["round"]: state for state in answer.get("rounds", ())}
            except HarnessError as error:
                states[label] = {"error": str(error)}
            self.call_later(self._show_rounds, dict(states))
        self.call_later(self._show_progress, "checked")

    def _show_rounds(self, states: dict[str, dict[str, Any]]) -> None:
        self._states = states
        self.query_one("#rounds", ListTable).show([*_ROUND_COLUMNS], [_round_row(*item) for item in states.items()])
        self._show_files()

    @on(ListTable.Highlighted, "#rounds")
    def _show_files(self) -> None:
        name = self.query_one("#rounds", ListTable).key_under_cursor or ""
        state = self._states.get(name, {})
        panel, files = self.query_one("#file-list", Panel), state.get("files", [])
        panel.show_empty(state.get("error", "" if files else "checking …"))
        panel.set_title(f"Files of {name}")
        self.query_one("#files", ListTable).show(*table_of(_FILE_COLUMNS, {file["path"]: file for file in files}))

    def action_fetch(self) -> None:
        self._cancelled = Event()
        self._fetch(self._cancelled)

    def action_back_out(self) -> None:
        """Cancel the fetching, and remove the filter."""
        self._cancelled.set()
        super().action_back_out()

    @work(thread=True, exclusive=True, group="fetch")
    def _fetch(self, cancelled: Event) -> None:
        def on_progress(line: str) -> None:
            self.call_later(self._show_progress, f"fetching, Escape cancels · {line}")

        on_progress(_DATA_SET)
        try:
            answer = run_command(["data", "fetch", _DATA_SET], on_progress=on_progress, cancelled=cancelled)
            self.notify("Not fetched: cancelled." if answer is None else "The files were fetched.")
        except HarnessError as error:
            self.notify(f"Not fetched. {error}", severity="error")
        self.call_later(self.action_check)

    def _show_progress(self, text: str) -> None:
        self.query_one("#round-list", Panel).set_title(f"Rounds · {text}")


def _round_row(name: str, state: dict[str, Any]) -> Row:
    if "error" in state:
        return Row(name, [[(name, "bold"), (f"  {state['error']}", "bad")]], spans=True)
    return row_of(_ROUND_COLUMNS, name, {**state, "label": name})


def _completeness(state: dict[str, Any]) -> Span:
    files = state.get("files", [])
    if not files:
        return "checking …", "dim"
    missing = sum(file["state"] != "present" for file in files)
    return ("complete", "good") if state["is_complete"] else (f"{missing} of {len(files)} missing", "warning")


def _answers(state: dict[str, Any]) -> str:
    files = state.get("files", [])
    if not files:
        return ""
    lacks_answers = any("answer_file" in file["fields"] and file["state"] == "missing" for file in files)
    return "missing" if lacks_answers else "blind" if state["is_blind"] else "known"
