"""A run's store read again and again, by sequence number, into snapshots: each row is read once."""

import math
import time
from collections import deque
from typing import Any

import numpy as np

from harness.core.arrays import Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_prefixes
from harness.core.guesses import Guesses
from harness.core.live_score import LiveScore
from harness.core.scoring import correct_rows
from harness.jobs.attack.reader import Arrivals, GuessReader
from harness.jobs.attack.results import ranked_guesses, submission_of
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.reader import Point
from harness.runs.summary import run_summary
from harness.tui.polled import Polled
from harness.tui.snapshot import GuessLine, History, Snapshot, Verdict

LINES_HELD = 500
_ROWS_AT_ONCE = 20_000
_READING_SECONDS = 0.3
_MOST_POINTS = 2_000
_RATE_SECONDS = 30.0
_LOG_BYTES = 16_384
_SHARE_FOR_EXACT = 0.02


class RunFeed(Polled[Snapshot]):
    """What is known of one attack's run."""

    def __init__(self, folder: RunFolder) -> None:
        """Raises HarnessError when the run's record or its round's files cannot be read."""
        super().__init__(folder)
        self.spec = folder.spec()
        self._exact_due = 0.0
        with as_harness_error(folder.path):
            self.prefixes: Tokens = load_prefixes(self.spec.round)[: self.spec.examples]
            answers = load_answers(self.spec.round)
            self.answers: Tokens | None = None if answers is None else answers[: self.spec.examples]
            self._begin_anew({})

    def _begin_anew(self, repeated: dict[int, int]) -> None:
        """Forget what was read: a batch was begun again, and what its earlier attempt gave is void."""
        self._standing = LiveScore(
            self.answers,
            examples=self.spec.examples,
            error_cap=self.spec.error_cap,
            row_cap=self.spec.round.row_cap,
            per_example=self.spec.attack.guesses_per_example,
        )
        self._repeated = repeated
        self._seq = 0
        self._settled_at: int | None = None
        self._points: list[Point] = []
        self._points_seen = 0
        self._lines: deque[GuessLine] = deque(maxlen=LINES_HELD)
        self._work: deque[tuple[float, float]] = deque()
        self._work_seen = 0

    def _read(self) -> Snapshot:
        summary = run_summary(self.folder)
        telemetry: dict[str, float] = {}
        if self.folder.store.exists():
            with GuessReader.of_run(self.folder, self.spec) as reader:
                self._take_guesses(reader)
                self._take_points(reader)
                self._take_work(reader)
                looked = reader.last_telemetry()
                telemetry = {} if looked is None else finite_readings(looked[1])
                self._settle(reader, is_over=summary.status.is_over)
        return Snapshot(
            summary=summary,
            figures=self._standing.figures(),
            history=self._history(),
            lines=tuple(self._lines),
            suffixes_per_s=self._suffixes_per_s(),
            telemetry=telemetry,
            log=last_log_lines(self.folder),
            loaded=1.0 if not summary.guesses else min(1.0, self._seq / summary.guesses),
        )

    def _take_guesses(self, reader: GuessReader) -> None:
        repeated = reader.repeated_batches()
        if repeated != self._repeated:
            self._begin_anew(repeated)
        until = time.monotonic() + _READING_SECONDS
        while True:
            arrived = reader.arrivals(
                after=self._seq,
                limit=_ROWS_AT_ONCE,
            )
            if not len(arrived.seq):
                return
            self._take(arrived)
            self._seq = int(arrived.seq[-1])
            if time.monotonic() > until:
                return

    def _take(self, arrived: Arrivals) -> None:
        rows = arrived.valid_rows(self._repeated)
        guesses = arrived.guesses.part(rows)
        if len(guesses) and not (int(guesses.ids.min()) >= 0 and int(guesses.ids.max()) < self.spec.examples):
            raise HarnessError(f"{self.folder.store}: holds a guess for an example that the round lacks.")
        self._standing.add(guesses)
        self._lines.extend(guess_lines(arrived, rows[-LINES_HELD:], self.answers))

    def _take_points(self, reader: GuessReader) -> None:
        points = reader.points(self._points_seen)
        if not points:
            return
        self._points_seen = points[-1].seq
        self._points += points
        if len(self._points) > _MOST_POINTS:
            # The newest stays: it is the one that the header's recall agrees with.
            self._points = [*self._points[:-1:2], self._points[-1]]

    def _take_work(self, reader: GuessReader) -> None:
        for seq, at, weight in reader.work_done(self._work_seen):
            self._work_seen = seq
            self._work.append((at, weight))
        while len(self._work) > 2 and self._work[-1][0] - self._work[1][0] > _RATE_SECONDS:
            self._work.popleft()

    def _settle(self, reader: GuessReader, *, is_over: bool) -> None:
        """Read the submission whole where arrivals alone cannot tell it: a final order, or scores that fell."""
        is_final = is_over and self._settled_at != self._seq and reader.last_event("final_order") is not None
        if not (self._standing.is_stale or is_final) or time.monotonic() < self._exact_due:
            return
        before = time.monotonic()
        if self._standing.is_stale:
            ranked = ranked_guesses(self.spec, reader)
            self._standing.replace(ranked.part(np.arange(min(len(ranked), self.spec.round.row_cap))))
        if is_final:
            final = submission_of(self.spec, reader)
            self._standing.set_final(Guesses(final.ids, final.suffixes, np.zeros(len(final.ids))))
            self._settled_at = self._seq
        after = time.monotonic()
        self._exact_due = after + (after - before) / _SHARE_FOR_EXACT

    def _history(self) -> History:
        recalls = [point.recall for point in self._points]
        return History(
            np.array([point.spent for point in self._points], np.float64),
            None
            if self.answers is None
            else np.array([np.nan if recall is None else recall for recall in recalls], np.float64),
            np.array([point.guesses for point in self._points], np.int64),
        )

    def _suffixes_per_s(self) -> float | None:
        if len(self._work) < 2:
            return None
        seconds = self._work[-1][0] - self._work[0][0]
        return sum(weight for _, weight in list(self._work)[1:]) / seconds if seconds > 0 else None


def guess_lines(arrived: Arrivals, rows: Ints, answers: Tokens | None) -> tuple[GuessLine, ...]:
    """The arrivals at `rows` as lines of the stream, in that order."""
    guesses = arrived.guesses.part(rows)
    verdicts = [Verdict.UNKNOWN] * len(rows)
    if answers is not None:
        is_correct = correct_rows(guesses.ids, guesses.suffixes, answers)
        verdicts = [Verdict.RIGHT if is_right else Verdict.WRONG for is_right in is_correct]
    columns = (arrived.seq[rows].tolist(), arrived.at[rows].tolist(), guesses.ids.tolist(), guesses.score.tolist())
    return tuple(map(GuessLine, *columns, guesses.suffixes, verdicts))


def finite_readings(sample: dict[str, Any]) -> dict[str, float]:
    """The readings of a sample that are finite numbers."""
    return {name: value for name, value in sample.items() if isinstance(value, int | float) and math.isfinite(value)}


def last_log_lines(folder: RunFolder) -> tuple[str, ...]:
    """The last lines of the worker's log."""
    try:
        with folder.log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOG_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    lines = text.splitlines()
    return tuple(lines[1:] or lines if size > _LOG_BYTES else lines)
