"""One example: its prefix, its answer where known, and every candidate that each of some runs has for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from harness.analysis.candidates import VERDICTS, Candidate, Example, load_example
from harness.analysis.decoded_text import TokenText, text_of_run
from harness.core.errors import HarnessError
from harness.core.text import pluralize, sanitize
from harness.runs.folder import RunFolder
from harness.tui.text import marked
from harness.tui.widgets.key_footer import KeyFooter

_MOST_CANDIDATES = 200


class ExampleScreen(Screen[None]):
    """Examples one after the other, `ids` in this order, beginning at `first`."""

    CSS_PATH = "example.tcss"
    HELP = "One example with every candidate, best first. Tokens that differ from the answer are underlined."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "Back", tooltip="Back to where you came from"),
        Binding("n,right", "step(1)", "Next", tooltip="The next example"),
        Binding("p,left", "step(-1)", "Previous", tooltip="The previous example"),
        Binding("y", "copy_answer", "Copy", tooltip="Copy prefix and answer"),
    ]

    @dataclass
    class Read(Message):
        """What the runs have for an example, in the order of the runs; or why that cannot be read."""

        id_: int
        found: tuple[tuple[str, Example, TokenText], ...] = ()
        fault: str = ""

    def __init__(self, folders: Sequence[RunFolder], ids: Sequence[int], first: int) -> None:
        super().__init__()
        self._folders = tuple(folders)
        self._ids = ids
        self._place = ids.index(first)
        self._shown: tuple[tuple[str, Example, TokenText], ...] = ()

    def compose(self) -> ComposeResult:
        yield Static("", id="which")
        with VerticalScroll(id="example"):
            yield Static("reading …", id="example-text")
        yield KeyFooter()

    def on_mount(self) -> None:
        """Read the first example."""
        self.query_one("#example").focus()
        self.action_step(0)

    def action_step(self, step: int) -> None:
        """Go to the example that stands so many places on."""
        self._place = (self._place + step) % len(self._ids)
        id_ = self._ids[self._place]
        self.query_one("#which", Static).update(Content(f"example {id_:,} · {self._place + 1:,} of {len(self._ids):,}"))
        self._read(id_)

    @work(thread=True, exclusive=True, group="read")
    def _read(self, id_: int) -> None:
        try:
            found = tuple(
                (folder.id, load_example(folder, id_), text_of_run(folder, folder.spec())) for folder in self._folders
            )
            self.post_message(self.Read(id_, found))
        except HarnessError as error:
            self.post_message(self.Read(id_, fault=str(error)))

    @on(Read)
    def _show(self, event: Read) -> None:
        if event.id_ != self._ids[self._place]:
            return
        self._shown = event.found
        words = Content(sanitize(event.fault)) if event.fault else example_in_words(event.found)
        self.query_one("#example-text", Static).update(words)
        self.query_one("#example").scroll_home(animate=False)

    def action_copy_answer(self) -> None:
        """Copy the prefix and the answer as text."""
        if self._shown:
            _, example, text = self._shown[0]
            answer = "" if example.answer is None else text.text(example.answer.tolist())
            self.app.copy_to_clipboard(text.text(example.prefix.tolist()) + answer)
            self.notify("copied prefix and answer")


def example_in_words(found: Sequence[tuple[str, Example, TokenText]]) -> Content:
    """What each run, by id, has for one example of their round."""
    _, example, text = found[0]
    answer = "unknown: the round is blind" if example.answer is None else text.text(example.answer.tolist())
    parts = [
        Content.styled("prefix\n", "bold"),
        Content(text.text(example.prefix.tolist())),
        Content.styled("\n\nanswer\n", "bold"),
        Content(answer),
    ]
    for id_, of_run, text_of in found:
        candidates = of_run.candidates
        parts.append(Content.styled(f"\n\n{sanitize(id_)}: {pluralize(len(candidates), 'candidate')}\n", "bold"))
        wanted = None if of_run.answer is None else of_run.answer.tolist()
        for place, candidate in enumerate(candidates[:_MOST_CANDIDATES], 1):
            parts += [_candidate(place, candidate), marked(text_of, candidate.suffix.tolist(), wanted), Content("\n")]
        if len(candidates) > _MOST_CANDIDATES:
            more = len(candidates) - _MOST_CANDIDATES
            parts.append(Content(f"… and {more:,} more: harness show {sanitize(id_)} --example {of_run.id}"))
    return Content("").join(parts)


def _candidate(place: int, candidate: Candidate) -> Content:
    colour = {True: "$text-success", False: "$text-error", None: ""}[candidate.is_right]
    times = f" ×{candidate.times}" if candidate.times > 1 else ""
    return Content.assemble(
        f"{place:>3} ", (VERDICTS[candidate.is_right], colour), (f" {candidate.score:.4g}{times}  ", "dim")
    )
