"""The table of guesses: the newest ones as they arrive, those of one verdict, or the results of a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widgets import Input
from textual.worker import get_current_worker

from harness.analysis.candidates import VERDICTS
from harness.analysis.decoded_text import TokenText
from harness.core.errors import HarnessError
from harness.core.guesses import GUESSES
from harness.core.rows import Kind
from harness.core.text import NO_VALUE, sanitize
from harness.tui.columns import Cell, Column, Row
from harness.tui.guess_search import MAX_RESULTS, highlight, parse_example_id, search_guesses, suffix_spans
from harness.tui.run_feed import NEAR_MISS_TOKENS, RunFeed, has_verdict
from harness.tui.snapshot import GuessLine, RunSnapshot, Verdict
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel

_WIDTHS = {Kind.REAL: 9, Kind.INTEGER: 5}
_NUMBERS = {column.name: _WIDTHS[column.kind] for column in GUESSES.columns if column.name not in ("example", "suffix")}
_PREFIX_CHARACTERS, _ROOMY_WIDTH = 26, 100
"""The cells of the prefix, of which a table that is narrower than this shows half."""
_MEANINGS = {True: "good", False: "bad", None: "dim"}


class GuessTable(Panel):
    """Guesses, newest last. The cursor on the last row stays on the newest guess."""

    HELP = (
        "The guesses as they arrive: example, score, trial, ✓ right or ✗ wrong with the number of differing tokens, "
        "the end of the prefix and the suffix. A right suffix is green. In a near miss (at most "
        f"{NEAR_MISS_TOKENS} tokens differ) the wrong tokens are coloured and underlined. m shows only right guesses, "
        "near misses or wrong ones."
    )
    DEFAULT_CSS = "GuessTable #search { height: 1; display: none; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close_search", "All guesses", tooltip="Close the search"),
    ]

    @dataclass
    class Chosen(Message):
        """The user opens a guess."""

        line: GuessLine

    def __init__(self, *, id: str) -> None:
        field = Input(placeholder='example id or text ("12" for the digits), then Enter', id="search", compact=True)
        super().__init__(field, ListTable(id="guess-rows", opens=True, is_live=True), id=id, label="Guesses")
        self._feed: RunFeed | None = None
        self._text = TokenText(None)
        self._newest: Mapping[Verdict, Sequence[GuessLine]] = {}
        self._counts: Mapping[Verdict, int] = {}
        self._verdict = Verdict.ALL
        self._results: Sequence[GuessLine] | None = None
        self._query = self._asked = ""
        self._none = "reading …"
        self._lines: dict[str, GuessLine] = {}
        self._rows: dict[str, Row] = {}

    @property
    def table(self) -> ListTable:
        """The rows."""
        return self.query_one(ListTable)

    def set_source(self, feed: RunFeed, text: TokenText) -> None:
        """Set the run to search and the decoder of its tokens."""
        self._feed, self._text = feed, text
        self._rows.clear()

    def show(self, snapshot: RunSnapshot) -> None:
        """Show the newest guesses, unless a search is shown."""
        self._newest, self._counts = snapshot.lines, snapshot.counts
        status = "none" if snapshot.summary.status.is_over else "none yet"
        self._none = status if snapshot.loaded == 1 else "reading …"
        if self._results is None:
            self._set_title()
            self._fill(self._newest[self._verdict])

    def action_verdict(self) -> None:
        verdicts = list(Verdict)
        self.action_show_verdict(verdicts[(verdicts.index(self._verdict) + 1) % len(verdicts)])

    def action_show_verdict(self, verdict: str) -> None:
        """Show the guesses of a verdict."""
        self._verdict = Verdict(verdict)
        self.screen.set_focus(self.table)
        if self._results is not None:
            self._show_results()
        elif self._newest:
            self._set_title()
            self.table.follows_end = True
            self._fill(self._newest[self._verdict])

    @on(ListTable.Opened)
    def _open(self, event: ListTable.Opened) -> None:
        event.stop()
        if event.key in self._lines:
            self.post_message(self.Chosen(self._lines[event.key]))

    # The search.

    def open_search(self) -> None:
        """Show the search field."""
        field = self.query_one("#search")
        field.display = True
        self.screen.set_focus(field)

    def action_close_search(self) -> None:
        """Return to the newest guesses."""
        self.workers.cancel_group(self, "search")
        self.query_one("#search").display = False
        self._results, self._query = None, ""
        self._rows.clear()
        self._set_title()
        self.table.follows_end = True
        self.screen.set_focus(self.table)
        if self._newest:
            self._fill(self._newest[self._verdict])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Escape to the screen if there is no search to close."""
        return action != "close_search" or self.query_one("#search").display

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        if not event.value or self._feed is None:
            self.action_close_search()
            return
        self.screen.set_focus(self.table)
        self._search(event.value, self._feed, self._text)

    @work(thread=True, exclusive=True, group="search")
    def _search(self, query: str, feed: RunFeed, text: TokenText) -> None:
        worker = get_current_worker()

        def on_progress(progress: float) -> bool:
            if not worker.is_cancelled:
                self.call_later(self._set_title, f"searching {query}: {progress:.0%}")
            return not worker.is_cancelled

        try:
            lines = search_guesses(query, feed, text, on_progress=on_progress)
        except HarnessError as error:
            self.notify(str(error), severity="error")
            self.call_later(self._set_title, "search failed, Escape shows all")
            return
        if not worker.is_cancelled:
            self.call_later(self._use_results, query, lines)

    def _use_results(self, query: str, lines: Sequence[GuessLine]) -> None:
        if self.query_one("#search").display:
            self._results, self._asked = lines, query[:30]
            self._query = "" if parse_example_id(query) is not None else query.strip('"')
            self._rows.clear()
            self._show_results()

    def _show_results(self) -> None:
        results = self._results or ()
        counts = [line.differing for line in results]
        selected = has_verdict(None if None in counts else np.array(counts), self._verdict)
        lines = [results[number] for number in np.arange(len(results))[selected]]
        newest = "the newest " if len(results) == MAX_RESULTS else ""
        self._set_title(f"{newest}{len(lines):,} found for {self._asked}, Escape shows all")
        self._fill(lines)

    # The rows.

    def _set_title(self, words: str = "") -> None:
        if not words and self._newest:
            shown, count = len(self._newest[self._verdict]), self._counts[self._verdict]
            is_blind = self._feed is None or self._feed.answers is None
            right = "" if is_blind else f" · {self._counts[Verdict.RIGHT]:,} right"
            words = f"{self._counts[Verdict.ALL]:,}{right}{f' · newest {shown:,}' if shown < count else ''}"
        switch = [
            Content.styled(
                f"[{verdict}]" if verdict is self._verdict else verdict.value,
                Style.from_meta({"@click": f"show_verdict({verdict.value!r})"}),
            )
            for verdict in Verdict
        ]
        self.set_title(f"{' · '.join(filter(None, ['Guesses', words]))} · ", Content(" ").join(switch))

    def _fill(self, lines: Sequence[GuessLine]) -> None:
        if self._feed is None:
            return
        none = f"no {self._verdict} guesses" if self._newest.get(Verdict.ALL) else self._none
        self.show_empty("" if lines or self._results is not None else none)
        rows = list[Row]()
        # An attack without trials reports 0 for each guess.
        reported = {name for line in lines for name, number in line.numbers.items() if number}
        names = tuple(name for name, width in _NUMBERS.items() if name in reported or width == _WIDTHS[Kind.REAL])
        cache, self._rows = self._rows, {}
        for line in lines:
            key = f"{line.seq} {len(names)}"
            self._rows[key] = cache.get(key) or Row(str(line.seq), partial(self._cells, line, names))
            rows.append(self._rows[key])
        self._lines = {str(line.seq): line for line in lines}
        self.table.show(_columns(names, self.size.width), rows)

    def _cells(self, line: GuessLine, names: Sequence[str]) -> list[Cell]:
        assert self._feed is not None
        prefixes, answers, query = self._feed.prefixes, self._feed.answers, self._query
        prefix = sanitize(self._text.text(prefixes[line.example].tolist()))
        answer = None if answers is None else answers[line.example]
        differing = "" if not line.differing else f" {line.differing}"
        if (line.differing or 0) > NEAR_MISS_TOKENS:
            suffix = highlight([(self._text.text(line.suffix.tolist()), "dim")], query)
        else:
            suffix = suffix_spans(self._text, line.suffix, answer, query=self._query)
        return [
            [(f"{line.example}", "bold")],
            *(_number_text(line.numbers[name]) for name in names),
            [(f"{VERDICTS[line.is_right]}{differing}", _MEANINGS[line.is_right])],
            lambda width: highlight([(prefix[-width:], "dim")], query),
            suffix,
        ]


def _columns(names: Sequence[str], width: int) -> list[Column]:
    """Return the columns of a table that is `width` cells wide, with those of these numbers."""
    prefix = _PREFIX_CHARACTERS if width >= _ROOMY_WIDTH else _PREFIX_CHARACTERS // 2
    return [
        Column("example", width=7, is_right=True),
        *(Column(name, width=max(_NUMBERS[name], len(name)), is_right=True) for name in names),
        Column("diff", width=4),
        Column("prefix", width=prefix, min_width=8, is_right=True),
        Column("suffix", fills=True, min_width=10),
    ]


def _number_text(number: float) -> str:
    if isinstance(number, int):
        return f"{number:,}" if number else NO_VALUE
    return f"{number:.4f}" if 1e-4 <= abs(number) < 1e3 or not number else f"{number:.3g}"
