"""The screen of one example: its prefix, its answer if known, and the candidates of one or more runs."""

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from harness.analysis.candidates import VERDICTS, Candidate, Example, load_example
from harness.analysis.decoded_text import TokenText, text_of_run
from harness.core.errors import HarnessError
from harness.core.text import pluralize, sanitize
from harness.runs.folder import RunFolder
from harness.tui.token_differences import underline_differences
from harness.tui.widgets.key_footer import KeyFooter

_MAX_CANDIDATES = 200
_RunExample = tuple[str, Example, TokenText]
"""The id of a run, the example with the run's candidates, and the run's decoder."""


class ExampleScreen(Screen[None]):
    """One of the examples `ids`, beginning with `first`; keys go to the next and the previous one."""

    CSS_PATH = "example.tcss"
    HELP = "One example with all candidates, best first. Tokens that differ from the answer are underlined."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "Back", tooltip="Close this screen"),
        Binding("n,right", "step(1)", "Next", tooltip="Go to the next example"),
        Binding("p,left", "step(-1)", "Previous", tooltip="Go to the previous example"),
        Binding("y", "copy_answer", "Copy", tooltip="Copy prefix and answer"),
    ]

    def __init__(self, folders: Sequence[RunFolder], ids: Sequence[int], first: int) -> None:
        super().__init__()
        self._folders = tuple(folders)
        self._ids = ids
        self._index = ids.index(first)
        self._shown: tuple[_RunExample, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static("", id="which")
        with VerticalScroll(id="example"):
            yield Static("reading …", id="example-text")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#example").focus()
        self.action_step(0)

    def action_step(self, step: int) -> None:
        self._index = (self._index + step) % len(self._ids)
        id_ = self._ids[self._index]
        self.query_one("#which", Static).update(Content(f"example {id_:,} · {self._index + 1:,} of {len(self._ids):,}"))
        self._load(id_)

    @work(thread=True, exclusive=True, group="load")
    def _load(self, id_: int) -> None:
        try:
            found = tuple(
                (folder.id, load_example(folder, id_), text_of_run(folder, folder.attack_spec()))
                for folder in self._folders
            )
            self.call_later(self._show, id_, found)
        except HarnessError as error:
            self.call_later(self._show, id_, (), str(error))

    def _show(self, id_: int, found: tuple[_RunExample, ...], fault: str = "") -> None:
        if id_ != self._ids[self._index]:
            return
        self._shown = found
        content = Content(sanitize(fault)) if fault else example_content(found)
        self.query_one("#example-text", Static).update(content)
        self.query_one("#example").scroll_home(animate=False)

    def action_copy_answer(self) -> None:
        if self._shown:
            _, example, text = self._shown[0]
            answer = "" if example.answer is None else text.text(example.answer.tolist())
            self.app.copy_to_clipboard(text.text(example.prefix.tolist()) + answer)
            self.notify("Copied prefix and answer.")


def example_content(found: Sequence[_RunExample]) -> Content:
    """Return the prefix and the answer of an example, and the candidates of each run."""
    _, example, text = found[0]
    answer = "unknown: the round is blind" if example.answer is None else text.text(example.answer.tolist())
    parts = [
        Content.styled("prefix\n", "bold"),
        Content(text.text(example.prefix.tolist())),
        Content.styled("\n\nanswer\n", "bold"),
        Content(answer),
    ]
    for run_id, in_run, run_text in found:
        candidates = in_run.candidates
        parts.append(Content.styled(f"\n\n{sanitize(run_id)}: {pluralize(len(candidates), 'candidate')}\n", "bold"))
        expected = None if in_run.answer is None else in_run.answer.tolist()
        for rank, candidate in enumerate(candidates[:_MAX_CANDIDATES], 1):
            suffix = underline_differences(run_text, candidate.suffix.tolist(), expected)
            parts += [_candidate_facts(rank, candidate), suffix, Content("\n")]
        if len(candidates) > _MAX_CANDIDATES:
            more = len(candidates) - _MAX_CANDIDATES
            parts.append(Content(f"… and {more:,} more: harness show {sanitize(run_id)} --example {in_run.id}"))
    return Content("").join(parts)


def _candidate_facts(rank: int, candidate: Candidate) -> Content:
    colour = {True: "$text-success", False: "$text-error", None: ""}[candidate.is_right]
    times = f" ×{candidate.times}" if candidate.times > 1 else ""
    return Content.assemble(
        f"{rank:>3} ", (VERDICTS[candidate.is_right], colour), (f" {candidate.score:.4g}{times}  ", "dim")
    )
