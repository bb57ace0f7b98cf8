"""The screen of one example: its prefix, its answer if known, and the candidates of one or more runs."""

import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.analysis.candidates import VERDICTS, Candidate, Example, RightGuess, load_example, right_guess_of
from harness.analysis.decoded_text import TokenText, text_of_run
from harness.core.errors import HarnessError
from harness.core.examples import rows_with
from harness.core.text import pluralize, sanitize, shorten
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec
from harness.runs.summary import RunSummary
from harness.tui.axes import Axis
from harness.tui.columns import Cell, Column, Row, Span
from harness.tui.guess_search import compared_pieces, suffix_spans
from harness.tui.plot import Plot
from harness.tui.subprocesses import run_command
from harness.tui.widgets.bars import KeyFooter, TopBar
from harness.tui.widgets.list_table import ListTable, style_of
from harness.tui.widgets.plot_view import PlotView

_MAX_CANDIDATES, _MAX_PIECE = 200, 20
_HEAT = (
    (0.9, "#00b184", "≥ 0.9"),
    (0.5, "#8bbf3f", "≥ 0.5"),
    (0.1, "#e6b800", "≥ 0.1"),
    (0.01, "#e67e22", "≥ 0.01"),
    (0.0, "#e0475b", "< 0.01"),
)
"""Colours of tokens by their probability: the minimum probability, the colour and the words of the legend."""
_COLUMNS = (
    Column("rank", is_right=True),
    Column("", width=6),
    Column("score", width=9, is_right=True),
    Column("count", is_right=True),
    Column("first ✗", is_right=True),
    Column("suffix", fills=True, min_width=20),
)


class ExampleInRun:
    """One example in one run: its candidates, the run's decoder, and whether its right guess counts.

    probabilities: of the tokens of the answer and of the candidates, as `harness show --probabilities` prints them;
    None while they are not shown.
    """

    def __init__(self, folder: RunFolder, id_: int) -> None:
        """Raises HarnessError if the run cannot be read."""
        self.run_id = folder.id
        self.example: Example = load_example(folder, id_)
        self.spec: AttackSpec = folder.attack_spec()
        self.text: TokenText = text_of_run(folder, self.spec)
        self.right_guess: RightGuess = right_guess_of(folder, self.example)
        self.probabilities: dict[str, Any] | None = None

    @property
    def answer(self) -> list[int] | None:
        """The token ids of the answer; None if it is unknown."""
        return None if self.example.answer is None else self.example.answer.tolist()

    def spans_of(self, rank: int) -> list[Span]:
        """Return the tokens of the candidate with a rank from 1, coloured as right or wrong, or by probability."""
        candidate = self.example.candidates[rank - 1]
        scored = [] if self.probabilities is None else self.probabilities["candidates"]
        if rank > len(scored):
            return suffix_spans(self.text, candidate.suffix, self.example.answer)
        pieces = compared_pieces(self.text, candidate.suffix.tolist(), self.answer)
        return [
            (piece, f"{heat_colour(probability)} {'underline' if differs else ''}".strip())
            for (piece, differs), probability in zip(pieces, scored[rank - 1], strict=True)
        ]


class ExampleScreen(Screen[None]):
    """One of the examples `ids`, beginning with `first`; keys go to the next and the previous one."""

    CSS_PATH = "example.tcss"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (30, "-high")]  # noqa: RUF012  as Textual declares it
    HELP = (
        "One example with all candidates, best first. Tokens that differ from the answer are coloured and underlined; "
        "`first ✗` is the first token that differs."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "Back", tooltip="Close this screen"),
        Binding("n", "step(1)", "Next", tooltip="Go to the next example"),
        Binding("N", "step(-1)", "Previous", tooltip="Go to the previous example"),
        Binding("h", "heat", "Probabilities", tooltip="Colour each token by its probability under the target"),
        Binding("y", "copy_answer", "Copy", tooltip="Copy prefix and answer"),
    ]

    def __init__(self, folders: Sequence[RunFolder], ids: Sequence[int], first: int) -> None:
        super().__init__()
        self._folders = tuple(folders)
        self._ids = ids
        self._example_id = first
        self._runs_shown: tuple[ExampleInRun, ...] = ()
        self._clock: Timer | None = None
        """Shows for how long the tokens have been scored."""

    def compose(self) -> ComposeResult:
        yield TopBar()
        yield Static("", id="which")
        with VerticalScroll(id="texts", can_focus=False):
            yield Static("reading …", id="example-text")
        yield Static("", id="right-guess")
        yield Static("", id="others")
        with Vertical():
            yield ListTable(id="candidates")
            yield PlotView(id="token-plot")
            yield Static("", id="chosen")
        yield KeyFooter()

    def on_mount(self) -> None:
        for name in ("right-guess", "others", "token-plot"):
            self.query_one(f"#{name}").display = False
        self.set_focus(self.query_one(ListTable))
        self._go_to(self._example_id)

    def action_step(self, step: int) -> None:
        index = self._ids.index(self._example_id) if self._example_id in self._ids else 0
        self._go_to(self._ids[(index + step) % len(self._ids)])

    def _go_to(self, id_: int) -> None:
        self._example_id = id_
        self._show_which()
        self._show_others(id_, "")
        self._load(id_)

    def _show_which(self, words: str = "") -> None:
        id_ = self._example_id
        place = f"{self._ids.index(id_) + 1:,} of {len(self._ids):,}" if id_ in self._ids else "not in the list"
        parts = filter(None, (f"Example {id_:,}", place, words))
        self.query_one("#which", Static).update(Content(" · ".join(parts)))

    @work(thread=True, exclusive=True, group="load")
    def _load(self, id_: int) -> None:
        worker = get_current_worker()
        try:
            runs = tuple(ExampleInRun(folder, id_) for folder in self._folders)
        except HarnessError as error:
            self.call_later(self._show, id_, (), str(error))
            return
        self.call_later(self._show, id_, runs)
        # The application reads all runs, and this screen does not import it.
        words = others_in_words(runs, getattr(getattr(self.app, "overview", None), "runs", ()))
        if not worker.is_cancelled:
            self.call_later(self._show_others, id_, words)

    def _show_others(self, id_: int, words: str) -> None:
        if id_ == self._example_id:
            self.query_one("#others", Static).update(Content(sanitize(words)))
            self.query_one("#others").display = bool(words)

    def _show(self, id_: int, runs: tuple[ExampleInRun, ...], fault: str = "") -> None:
        if id_ != self._example_id:
            return
        self._runs_shown = runs
        with self.app.batch_update():
            self.query_one("#example-text", Static).update(Content(sanitize(fault)) if fault else texts_of(runs[0]))
            words = [
                Content.styled(
                    sanitize(f"{run.run_id}: {run.right_guess.words}"),
                    "$text-success" if run.right_guess.counts else "$text-warning",
                )
                for run in runs
                if run.right_guess.words
            ]
            place = self.query_one("#right-guess", Static)
            place.update(Content("\n").join(words))
            place.display = bool(words)
            rows = [row for run in runs for row in candidate_rows(run)]
            table = self.query_one(ListTable)
            is_new = table.key_under_cursor is None
            # The line above names a single run.
            has_headings = len(runs) > 1 or len(rows) > _MAX_CANDIDATES
            table.show(_COLUMNS, [*map(answer_row, runs[:1]), *(rows if has_headings else rows[1:])])
            if is_new and len(rows) > 1:
                table.move_to(rows[1].key)
            self._show_tokens()
            self._show_chosen()

    def _show_tokens(self) -> None:
        """Show the probability of each token of the answer as a bar, where there is room and they were scored."""
        probabilities = self._runs_shown[0].probabilities if self._runs_shown else None
        scores = (probabilities or {}).get("answer")
        plot = self.query_one("#token-plot", PlotView)
        plot.display = bool(scores) and self.has_class("-high")
        if scores:
            x = Axis("token", 1.0, max(2.0, float(len(scores))), min_step=1.0)
            run, least = self._runs_shown[0], int(np.argmin(scores))
            piece = shorten(sanitize(run.text.pieces(run.answer or [])[least]), _MAX_PIECE)
            title = f"Probability of each token · least likely: {scores[least]:.2g}, {least + 1} “{piece}”"
            plot.show(Plot(x, Axis(title, 0.0, 1.0), bars=np.array(scores, np.float64)))

    @on(ListTable.Highlighted, "#candidates")
    def _show_chosen(self) -> None:
        """Show the candidate under the cursor in full, below the list."""
        key = self.query_one(ListTable).key_under_cursor or ""
        run_id, _, rank = key.rpartition(" ")
        line = Text()
        for run in self._runs_shown:
            if run.run_id == run_id:
                spans = [(sanitize(text), style_of(self.app, meaning)) for text, meaning in run.spans_of(int(rank))]
                line = Text.assemble(("guess   ", "bold"), *spans)
        self.query_one("#chosen", Static).update(Content.from_rich_text(line))

    def action_heat(self) -> None:
        """Colour the tokens by their probability, or by whether they are right again."""
        if any(run.probabilities is not None for run in self._runs_shown):
            self._show_probabilities(self._runs_shown, [None] * len(self._runs_shown))
        elif self._runs_shown and self._clock is None:
            started = time.monotonic()

            def show_wait() -> None:
                waited = format_duration(time.monotonic() - started)
                self._show_which(f"scoring the tokens with the target, {waited}")

            show_wait()
            self._clock = self.set_interval(1.0, show_wait)
            self._score(self._example_id, self._runs_shown)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.stop()
            self._clock = None
            self._show_which()

    @work(thread=True, exclusive=True, group="heat")
    def _score(self, id_: int, runs: tuple[ExampleInRun, ...]) -> None:
        scored = []
        try:
            for run in runs:
                command = ["show", run.run_id, "--example", str(id_), "--probabilities"]
                if (printed := run_command(command, on_progress=lambda line: None)) is None:
                    return
                scored.append(printed["probabilities"])
        except HarnessError as error:
            self.app.notify(str(error), severity="error")
            return
        finally:
            self.call_later(self._stop_clock)
        self.call_later(self._show_probabilities, runs, scored)

    def _show_probabilities(self, runs: tuple[ExampleInRun, ...], scored: list[dict[str, Any] | None]) -> None:
        for run, probabilities in zip(runs, scored, strict=True):
            run.probabilities = probabilities
        if runs is self._runs_shown:
            self._show(self._example_id, runs)

    def action_copy_answer(self) -> None:
        if self._runs_shown:
            run = self._runs_shown[0]
            self.app.copy_to_clipboard(run.text.text([*run.example.prefix.tolist(), *(run.answer or [])]))
            self.notify("Copied prefix and answer.")


def texts_of(run: ExampleInRun) -> Content:
    """Return the prefix and the answer of an example, whose tokens are coloured by probability if it is shown."""
    answer, scale = Content("unknown: the round is blind"), Content("")
    if run.probabilities is not None:
        scale = Content.assemble("\nprobability  ", *((f"{words}  ", colour) for _, colour, words in _HEAT))
    if run.answer is not None:
        answer = Content.assemble(*_answer_spans(run, ""))
    prefix = run.text.text(run.example.prefix.tolist())
    return Content.assemble(("prefix  ", "bold"), prefix, "\n", ("answer  ", "bold"), answer, scale)


def others_in_words(shown: Sequence[ExampleInRun], runs: Iterable[RunSummary]) -> str:
    """Return how many training rows contain the answer, and which other attacks solve the example with their best run.

    Runs of other targets do not count. An attack whose best run did not attack the example is left out.
    """
    first, spec, attacks = shown[0].example, shown[0].spec, {run.spec.attack.name for run in shown}
    best = {
        run.attack: RunFolder.of(run.id)
        for run in sorted(runs, key=lambda run: run.known_recall or 0.0)
        if run.status.is_over and run.known_recall is not None and run.attack not in attacks and not run.is_control
        if (run.round, run.target, run.is_partial) == (spec.round.name, spec.target_name, spec.is_partial)
    }
    facts, verdicts = list[str](), list[str]()
    with contextlib.suppress(HarnessError):  # a round may name files that are not here
        if first.answer is not None and (rows := rows_with(first.answer, spec.round)):
            facts = [f"answer in {pluralize(rows, 'training row')} of the round"]
    for attack, folder in sorted(best.items()):
        with contextlib.suppress(HarnessError):
            if (example := load_example(folder, first.id)).candidates:
                verdicts.append(f"{attack} {VERDICTS[right_guess_of(folder, example).counts]}")
    return " · ".join([*facts, *([f"other attacks: {', '.join(verdicts)}"] if verdicts else [])])


def answer_row(run: ExampleInRun) -> Row:
    """Return the answer in the column of the candidates; it is empty if the round is blind."""
    return Row("answer", [[("answer", "dim")], *[""] * 4, [*_answer_spans(run, "good")]])


def _answer_spans(run: ExampleInRun, meaning: str) -> list[Span]:
    pieces = [] if run.answer is None else run.text.pieces(run.answer)
    scored = None if run.probabilities is None else run.probabilities["answer"]
    return [*zip(pieces, [meaning] * len(pieces) if scored is None else map(heat_colour, scored), strict=True)]


def candidate_rows(run: ExampleInRun) -> list[Row]:
    """Return a heading for the run, and a row for each candidate, best first."""
    candidates = run.example.candidates
    of_all = f"the best {_MAX_CANDIDATES} of " if len(candidates) > _MAX_CANDIDATES else ""
    heading = f"{run.run_id}: {of_all}{pluralize(len(candidates), 'candidate')}"
    rows = [Row(f"run {run.run_id}", [[(heading, "bold active")]], spans=True)]
    shown = enumerate(candidates[:_MAX_CANDIDATES], 1)
    return rows + [Row(f"{run.run_id} {rank}", _cells(run, rank, candidate)) for rank, candidate in shown]


def heat_colour(probability: float) -> str:
    """Return the colour of a token: from red for an impossible one over yellow to green for a certain one."""
    return next(colour for low, colour, _ in _HEAT if probability >= low)


def _cells(run: ExampleInRun, rank: int, candidate: Candidate) -> list[Cell]:
    pieces = compared_pieces(run.text, candidate.suffix.tolist(), run.answer)
    differing = [position for position, (_, differs) in enumerate(pieces, 1) if differs]
    meaning = {True: "good", False: "bad", None: "dim"}[candidate.is_right]
    count = f" {len(differing)}" if differing else ""
    return [
        str(rank),
        [(f"{VERDICTS[candidate.is_right]}{count}", meaning)],
        f"{candidate.score:.4g}",
        f"×{candidate.times}" if candidate.times > 1 else "",
        str(differing[0]) if differing else "",
        run.spans_of(rank),
    ]
