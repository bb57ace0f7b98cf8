"""The feed of an attack's run: it reads each guess once and keeps the live score up to date."""

import time
from collections import Counter, deque
from functools import cached_property
from typing import Any

import numpy as np

from harness.analysis.parts import CurveBand, Part, attacked_parts, curve_band
from harness.core.arrays import Bools, Floats, Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_prefixes
from harness.core.guesses import Guesses
from harness.core.inputs import as_harness_error
from harness.core.live_score import Figures
from harness.runs.attack_record import attacked_answers, empty_score, submission_of
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import Arrivals, GuessReader
from harness.runs.reader import Point
from harness.runs.summary import RunSummary
from harness.tui.feed import Feed, thin
from harness.tui.series import recall_series
from harness.tui.snapshot import GuessLine, RunSnapshot, Verdict

MAX_LINES = 500
_BATCH_ROWS = 20_000
_READING_SECONDS = 0.3
_MAX_POINTS = 2_000
_RATE_SECONDS, _RECENT_RATES = 30.0, 12
_EXACT_TIME_SHARE = 0.02
_BAND_TIME_SHARE = 0.05
NEAR_MISS_TOKENS = 5
"""The most tokens that differ from the answer in a near miss."""


class RunFeed(Feed[RunSnapshot, GuessReader]):
    """The part of one attack's run that has been read."""

    def __init__(self, folder: RunFolder) -> None:
        """Raises HarnessError if the run's record or the files of its round cannot be read."""
        super().__init__(folder)
        self.spec = folder.attack_spec()
        self._next_exact_read = 0.0
        self._next_band = 0.0
        self._polls = 0
        with as_harness_error(folder.path):
            self.prefixes: Tokens = load_prefixes(self.spec.round)[: self.spec.examples]
            self.answers: Tokens | None = attacked_answers(self.spec)
            self._reset()

    def _reset(self) -> None:
        self._score = empty_score(self.spec, self.answers)
        self._seq = 0
        self._final_order_at: int | None = None
        self._points: list[Point] = []
        self._last_point = 0
        self._lines = {verdict: deque[GuessLine](maxlen=MAX_LINES) for verdict in Verdict}
        self._counts = Counter[Verdict]()
        self._band: tuple[Ints, Floats, Floats] | None = None
        """The last band: its errors, and how far it reaches below and above the curve of its time."""
        self._band_seq = -1
        self._rates: deque[float] = deque(maxlen=_RECENT_RATES)
        self._work: deque[tuple[float, float]] = deque()
        self._last_work = 0

    def _open(self) -> GuessReader:
        return GuessReader.of_run(self.folder, self.spec)

    def _read_new_rows(self, reader: GuessReader, summary: RunSummary) -> None:
        self._read_guesses(reader)
        self._read_points(reader)
        self._read_work(reader)
        self._read_submission(reader, is_over=summary.status.is_over)

    def _snapshot(self, **common: Any) -> RunSnapshot:
        summary: RunSummary = common["summary"]
        self._update_band()
        figures = self._score.figures()
        return RunSnapshot(
            figures=figures,
            band=self._band_around(figures),
            recall=recall_series(self._points, summary),
            rates=tuple(self._rates),
            lines={verdict: tuple(lines) for verdict, lines in self._lines.items()},
            counts=Counter(self._counts),
            loaded=min(1.0, self._seq / summary.guesses) if summary.guesses else 1.0,
            **common,
        )

    def _read_guesses(self, reader: GuessReader) -> None:
        """Read new guesses for at most `_READING_SECONDS`, so that a large store does not delay the first snapshot."""
        deadline = time.monotonic() + _READING_SECONDS
        while len((arrivals := reader.arrivals(after=self._seq, limit=_BATCH_ROWS)).seq):
            self._add(arrivals)
            self._seq = int(arrivals.seq[-1])
            if time.monotonic() > deadline:
                return

    def _add(self, arrivals: Arrivals) -> None:
        rows = arrivals.valid_rows(self._repeated)
        guesses = arrivals.guesses.part(rows)
        if len(guesses) and not (int(guesses.ids.min()) >= 0 and int(guesses.ids.max()) < self.spec.examples):
            raise HarnessError(f"{self.folder.store}: holds a guess for an example that the round does not have.")
        self._score.add(guesses)
        differing = _differing_tokens(guesses, self.answers)
        for verdict, lines in self._lines.items():
            chosen = rows[has_verdict(differing, verdict)]
            self._counts[verdict] += len(chosen)
            lines.extend(guess_lines(arrivals, chosen[-MAX_LINES:], self.answers))

    def _read_points(self, reader: GuessReader) -> None:
        points = reader.points(self._last_point)
        if points:
            self._last_point = points[-1].seq
            self._points = thin([*self._points, *points], _MAX_POINTS)

    def _read_work(self, reader: GuessReader) -> None:
        for seq, at, weight in reader.work_done(self._last_work):
            self._last_work = seq
            self._work.append((at, weight))
            while len(self._work) > 2 and at - self._work[1][0] > _RATE_SECONDS:
                self._work.popleft()
            if (rate := self._suffixes_per_s()) is not None:
                self._rates.append(rate)

    def _update_band(self) -> None:
        """Compute the band of the present curve again, in at most the share `_BAND_TIME_SHARE` of the time.

        The first poll leaves it out, so that the first picture comes early.
        """
        self._polls += 1
        is_due = self._polls > 1 and time.monotonic() >= self._next_band and self._band_seq != self._seq
        if self.answers is None or not is_due or not self._seq:
            return
        started = time.monotonic()
        band, self._band_seq = curve_band(self._score.walk(), self._whole), self._seq
        figures = self._score.figures()
        assert figures.errors is not None and figures.recall is not None
        recall = np.interp(band.errors, figures.errors, figures.recall)
        self._band = band.errors, np.maximum(0.0, recall - band.low), np.maximum(0.0, band.high - recall)
        ended = time.monotonic()
        self._next_band = ended + (ended - started) / _BAND_TIME_SHARE

    @cached_property
    def _whole(self) -> Part:
        return attacked_parts(self.spec).whole

    def _band_around(self, figures: Figures) -> CurveBand | None:
        """Return the last band, moved to the present curve, which it always contains."""
        if self._band is None or figures.errors is None or figures.recall is None:
            return None
        errors, *distances = self._band
        below, above = (np.interp(figures.errors, errors, distance) for distance in distances)
        low, high = np.maximum(0.0, figures.recall - below), np.minimum(1.0, figures.recall + above)
        return CurveBand(figures.errors, low, high)

    def _read_submission(self, reader: GuessReader, *, is_over: bool) -> None:
        """Read the whole submission where new guesses alone cannot give it: after a lower score, or a final order.

        This takes long for a large store, so it uses at most the share `_EXACT_TIME_SHARE` of the time.
        """
        has_final = is_over and self._final_order_at != self._seq and reader.last_event("final_order") is not None
        if not (self._score.is_stale or has_final) or time.monotonic() < self._next_exact_read:
            return
        started = time.monotonic()
        if self._score.is_stale:
            self._score.replace(reader.guesses())
        if has_final:
            final = submission_of(self.spec, reader)
            self._score.set_final(Guesses(final.ids, final.suffixes, np.zeros(len(final.ids))))
            self._final_order_at = self._seq
        ended = time.monotonic()
        self._next_exact_read = ended + (ended - started) / _EXACT_TIME_SHARE

    def _suffixes_per_s(self) -> float | None:
        if len(self._work) < 2:
            return None
        times, weights = zip(*self._work, strict=True)
        seconds = times[-1] - times[0]
        return sum(weights[1:]) / seconds if seconds > 0 else None


def guess_lines(arrivals: Arrivals, rows: Ints, answers: Tokens | None) -> tuple[GuessLine, ...]:
    """Return the guesses at `rows`, in that order, as lines of the stream."""
    guesses = arrivals.guesses.part(rows)
    counted = _differing_tokens(guesses, answers)
    differing = [None] * len(rows) if counted is None else counted.tolist()
    columns = {name: column.tolist() for name, column in guesses.numbers().items()}
    numbers = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return tuple(map(GuessLine, arrivals.seq[rows].tolist(), numbers, guesses.suffixes, differing))


def _differing_tokens(guesses: Guesses, answers: Tokens | None) -> Ints | None:
    """Return how many tokens of each suffix are not those of the answer, [rows]; None without answers."""
    if answers is None:
        return None
    return np.asarray((guesses.suffixes != answers[guesses.ids]).sum(axis=1), np.int64)


def has_verdict(differing: Ints | None, verdict: Verdict) -> Bools | slice:
    """Return which rows have the verdict, [rows]; without answers, every row or none."""
    if verdict is Verdict.ALL:
        return slice(None)
    if differing is None:
        return slice(0)
    low, high = {Verdict.RIGHT: (0, 0), Verdict.WRONG: (1, None), Verdict.NEAR_MISS: (1, NEAR_MISS_TOKENS)}[verdict]
    return np.asarray((differing >= low) & (True if high is None else differing <= high), np.bool_)
