"""The three figures above a run: its recall, the difference to the baseline, and the time with two bars."""

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Digits, Static

from harness.core.text import NO_VALUE, format_score, sanitize
from harness.core.times import format_duration
from harness.tui.columns import bar
from harness.tui.run_list import BASELINE
from harness.tui.snapshot import RunSnapshot, Snapshot

_BAR_CELLS = 16


class Figure(Vertical):
    """A large number with its name; in a low terminal one line."""

    _figure: tuple[str, str, str] | None = None

    def compose(self) -> ComposeResult:
        yield Digits("")
        yield Static("", classes="small")
        yield Static("", classes="name")

    def show(self, value: str, name: str, mood: str = "") -> None:
        """Show `value`; `mood` is `good`, `bad`, `none` for a value that does not exist, or empty."""
        if self._figure == (value, name, mood):
            return
        before, self._figure = self._figure, (value, name, mood)
        # A new arrangement of the screen takes tens of milliseconds.
        has_other_size = before is None or (len(before[0]), len(before[1])) != (len(value), len(name))
        self.query_one(Digits).update(value)
        self.query_one(".small", Static).update(Content.styled(value, "bold"), layout=has_other_size)
        self.query_one(".name", Static).update(Content(sanitize(name)), layout=has_other_size)
        for name_of_mood in ("good", "bad", "none"):
            self.set_class(mood == name_of_mood, f"-{name_of_mood}")


class RunFigures(Horizontal):
    """Recall, difference and time."""

    def compose(self) -> ComposeResult:
        yield Figure(id="recall-figure")
        yield Figure(id="difference-figure")
        with Vertical(id="time"):
            yield Figure(id="time-figure")
        with Vertical(id="bars-place"):
            yield Static("", id="bars")

    def on_resize(self) -> None:
        self.set_class(self.app.size.height < 32 or self.app.size.width < 100, "-small")

    def show(self, snapshot: RunSnapshot, baseline: float | None, missing: str) -> None:
        """Show the figures; `baseline` is the recall of the best other baseline run, `missing` why it is None."""
        self._show_recall(snapshot)
        self.query_one("#difference-figure", Figure).show(*difference_to_baseline(snapshot, baseline, missing))
        summary = snapshot.summary
        is_over = summary.status.is_over
        time = summary.elapsed_s if is_over else summary.eta_s
        name = "took" if is_over else "to the end"
        value = NO_VALUE if time is None else format_duration(time)
        self.query_one("#time-figure", Figure).show(value, name, mood="none" if time is None else "")
        # At 120 columns a longer bar would cut the ETA.
        cells = 4 if self.app.size.width < 100 else 8 if self.app.size.width < 150 else _BAR_CELLS
        self.query_one("#bars", Static).update(bars(snapshot, cells=cells), layout=False)

    def _show_recall(self, snapshot: RunSnapshot) -> None:
        summary, figures = snapshot.summary, snapshot.figures
        figure = self.query_one("#recall-figure", Figure)
        if figures.recall_at_cap is None:
            figure.show(f"{figures.guessed:,}", "examples guessed (blind)")
            return
        if not figures.guessed:
            figure.show(NO_VALUE, f"Recall@{summary.error_cap}", mood="none")
            return
        interval = summary.recall_interval
        if interval is None and snapshot.band is not None:
            at = snapshot.band.errors.searchsorted(min(summary.error_cap, snapshot.band.errors[-1]))
            interval = float(snapshot.band.low[at]), float(snapshot.band.high[at])
        bounds = "" if interval is None else f" ± {(interval[1] - interval[0]) / 2:.3f}"
        figure.show(format_score(figures.recall_at_cap), f"Recall@{summary.error_cap}{bounds}")


def difference_to_baseline(snapshot: RunSnapshot, baseline: float | None, missing: str) -> tuple[str, str, str]:
    """Return the value, name and mood of the difference; `baseline` is the recall of the best other baseline run.

    missing: why there is none.
    """
    summary, recall = snapshot.summary, snapshot.figures.recall_at_cap if snapshot.figures.guessed else None
    if summary.is_partial:
        return NO_VALUE, "partial: not compared", "none"
    if summary.attack == BASELINE and (baseline is None or baseline <= (recall or 0.0)):
        return NO_VALUE, "this is the baseline", "none"
    if baseline is None or recall is None:
        return NO_VALUE, missing if baseline is None else f"baseline {format_score(baseline)}", "none"
    difference = recall - baseline
    value, name = format_score(difference, is_signed=True), f"to baseline {format_score(baseline)}"
    if not summary.status.is_complete:  # the baseline has attacked other examples too
        return value, f"so far, {name}", "none"
    return value, name, "good" if difference > 0 else "bad" if difference < 0 else ""


def bars(snapshot: Snapshot, *, cells: int = _BAR_CELLS) -> Content:
    """Return two labelled bars: the budget that is spent, and the work that is done with the ETA."""
    summary = snapshot.summary
    spent = summary.elapsed_s / summary.budget_s
    lines = [_bar_line("budget", spent, summary.time_text, cells)]
    if summary.progress is None:
        words = "not known" if summary.status.is_over else "not known yet"
        lines.append(Content.assemble(("work   ", "$foreground 70%"), words))
    else:
        # Both together are cut at 120 columns.
        lines.append(_bar_line("work", summary.progress, summary.eta_text or sanitize(summary.step), cells))
    return Content("\n").join(lines)


def _bar_line(label: str, share: float, words: str, cells: int) -> Content:
    done, left = bar(share, cells)
    dim = "$foreground 70%"
    return Content.assemble((f"{label:<7}", dim), (done, "$text-primary"), (left, dim), f" {share:4.0%}  {words}")
