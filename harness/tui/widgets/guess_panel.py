"""The stream of guesses with a search above it, which goes through the run's whole store."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input
from textual.worker import get_current_worker

from harness.analysis.decoded_text import TokenText
from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.tui.feed import RunFeed
from harness.tui.search import guesses_for
from harness.tui.snapshot import GuessLine
from harness.tui.widgets.guess_stream import GuessStream

_TITLE = "guesses"


class GuessPanel(Vertical):
    """Shows the newest guesses, or what a search has found."""

    @dataclass
    class Found(Message):
        """What a search has come to: guesses, or how far it is, or why it failed."""

        wanted: str
        lines: tuple[GuessLine, ...] | None = None
        share: float = 0.0
        fault: str = ""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes)
        self._feed: RunFeed | None = None
        self._text = TokenText(None)
        self._newest: Sequence[GuessLine] = ()

    def compose(self) -> ComposeResult:
        yield Input(placeholder='an example\'s id, or text ("12" for the digits)', id="search", compact=True)
        yield GuessStream(id="stream")

    def on_mount(self) -> None:
        """Begin without a search."""
        self.query_one(Input).display = False

    @property
    def stream(self) -> GuessStream:
        """The lines themselves."""
        return self.query_one(GuessStream)

    @property
    def is_searching(self) -> bool:
        """There is a search, begun or done."""
        return bool(self.query_one(Input).display)

    def tell(self, feed: RunFeed, text: TokenText) -> None:
        """Where to search, and how tokens read."""
        self._feed, self._text = feed, text
        self.stream.tell(text, feed.prefixes, feed.answers)

    def show(self, lines: Sequence[GuessLine]) -> None:
        """Show the newest guesses, unless the stream is held."""
        self._newest = lines
        self.stream.show(lines)

    def begin_search(self) -> None:
        """Ask what to search for."""
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def follow(self) -> None:
        """Follow the newest guess, which leaves a search; or hold the lines that stand."""
        if self.is_searching or not self.stream.is_following:
            self.leave_search()
        else:
            self.stream.is_following = False
            self.border_title = Content(f"{_TITLE} · held, f follows")

    def leave_search(self) -> None:
        """Back to the newest guesses."""
        self.workers.cancel_group(self, "search")
        self.query_one(Input).display = False
        self.border_title = Content(_TITLE)
        self.stream.focus()
        self.stream.is_following = True
        self.stream.show(self._newest)

    @on(Input.Submitted)
    def _search_for(self, event: Input.Submitted) -> None:
        event.stop()
        if not event.value or self._feed is None:
            self.leave_search()
            return
        self.stream.focus()
        self._find(event.value, self._feed, self._text)

    @work(thread=True, exclusive=True, group="search")
    def _find(self, wanted: str, feed: RunFeed, text: TokenText) -> None:
        here = get_current_worker()

        def goes_on(share: float) -> bool:
            if not here.is_cancelled:
                self.post_message(self.Found(wanted, share=share))
            return not here.is_cancelled

        try:
            lines = guesses_for(wanted, feed, text, goes_on=goes_on)
            if not here.is_cancelled:
                self.post_message(self.Found(wanted, lines))
        except HarnessError as error:
            self.post_message(self.Found(wanted, fault=str(error)))

    @on(Found)
    def _take_found(self, event: Found) -> None:
        if not self.is_searching:
            return
        words = f"searching: {event.share:.0%}"
        if event.fault:
            words = "failed, escape shows all"
            self.notify(sanitize(event.fault), severity="error", markup=False)
        if event.lines is not None:
            words = f"{len(event.lines):,} found, escape shows all"
            self.stream.hold(event.lines)
        self.border_title = Content(f"{_TITLE} · {sanitize(event.wanted)[:40]} · {words}")
