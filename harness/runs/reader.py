"""Read run.db, without delaying its writer, and derive progress and ETA from the work of its stages."""

import json
import math
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, TypeAdapter

from harness.core.attack import GUESS_STAGE
from harness.core.errors import HarnessError
from harness.core.inputs import as_harness_error
from harness.runs.store import SCHEMA_VERSION

RowType = TypeVar("RowType")
_TIMEOUT_SECONDS = 2.0
"""The longest wait of a reader for a lock. In WAL mode a lock is held only while a store is opened or closed."""
LAST_ATTEMPTS = (
    "JOIN (SELECT batch AS last_batch, MAX(attempt) AS last_attempt FROM attempt GROUP BY batch) "
    "ON batch = last_batch AND attempt = last_attempt"
)
"""SQL that keeps the valid rows of a table: those of the last attempt of their batch."""
_WORK = TypeAdapter(list[tuple[int, float, float]])


def _parse_detail(text: Any) -> Any:
    try:
        # Unlike pydantic, it reads lone surrogates, which a text of the worker may contain.
        return json.loads(text)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


_Detail = Annotated[dict[Any, Any], BeforeValidator(_parse_detail)]
_DETAILS, _NAMED_DETAILS = TypeAdapter(list[tuple[_Detail]]), TypeAdapter(list[tuple[str, _Detail]])
_EVENTS, _SAMPLES = TypeAdapter(list[tuple[int, float, str, _Detail]]), TypeAdapter(list[tuple[int, float, _Detail]])


class Point(NamedTuple):
    """A point of the running curve. `spent` is in seconds; the last three are None in a blind round."""

    seq: int
    at: float
    spent: float
    guesses: int
    rows: int
    solved: int | None
    wrong: int | None
    recall: float | None


class LedgerEntry(NamedTuple):
    """An entry of the ledger: the seconds spent, and when that was written."""

    at: float
    entry: str
    spent: float


_SELECT_POINTS = f"SELECT {', '.join(Point._fields)} FROM point"  # noqa: S608
_POINTS, _LEDGER = TypeAdapter(list[Point]), TypeAdapter(list[LedgerEntry])


@dataclass(frozen=True)
class StageWork:
    """A stage of a job."""

    stage: str
    announced: float
    """Its number of draws."""
    done: float
    """The draws of the batches that are done, and the reported share of those of open ones."""
    batches_done: int
    """The number of batches that are done."""
    draw_weight: float = 1.0
    """The time of one draw relative to other stages."""
    seconds: float = 0.0
    """The time in which at least one of its done batches ran, or an open one until its last report."""
    is_announced: bool = False
    """True if the job announced the stage before it began."""

    @property
    def left(self) -> float:
        """The draws that are not done."""
        return max(0.0, self.announced - self.done)


def _covered_seconds(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of intervals, which are ordered by their begin. Several workers may overlap."""
    seconds, covered_to = 0.0, -math.inf
    for begun, ended in intervals:
        # A clock that is set back gives an end before the begin.
        seconds += max(0.0, ended - max(begun, covered_to))
        covered_to = max(covered_to, ended)
    return seconds


class RunReader:
    """A read-only view of run.db.

    Raises HarnessError if there is no store, if it cannot be read, or if a newer version of the harness wrote it.
    """

    def __init__(self, path: Path) -> None:
        with as_harness_error(path):
            if not path.exists():
                raise HarnessError(f"{path}: the run has no store.")
            self.path = path
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=_TIMEOUT_SECONDS
            )
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            self._db.close()
            raise HarnessError(
                f"{path} has schema version {version}; this harness reads up to {SCHEMA_VERSION}. Update the harness."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows that a SELECT statement gives."""
        with as_harness_error(self.path):
            return self._db.execute(statement, values).fetchall()

    def last_event(self, name: str) -> dict[str, Any] | None:
        """Return the detail of the last event called `name`."""
        query = "SELECT detail FROM event WHERE name = ? ORDER BY seq DESC LIMIT 1"
        return next((detail for (detail,) in self._read_typed(_DETAILS, query, name)), None)

    def last_events(self) -> dict[str, dict[str, Any]]:
        """Return the detail of the last event of each name."""
        query = "SELECT name, detail FROM event WHERE seq IN (SELECT MAX(seq) FROM event GROUP BY name)"
        return dict(self._read_typed(_NAMED_DETAILS, query))

    def events(self, after: int = 0) -> list[tuple[int, float, str, dict[str, Any]]]:
        """Return the events after sequence number `after`: seq, time, name, detail."""
        return self._read_typed(_EVENTS, "SELECT seq, at, name, detail FROM event WHERE seq > ? ORDER BY seq", after)

    def events_named(self, name: str) -> list[dict[str, Any]]:
        """Return the details of the events called `name`, in order."""
        query = "SELECT detail FROM event WHERE name = ? ORDER BY seq"
        return [detail for (detail,) in self._read_typed(_DETAILS, query, name)]

    def warnings(self) -> list[str]:
        """Return the distinct warnings of the worker."""
        return list(dict.fromkeys(str(event.get("sentence", "")) for event in self.events_named("worker_warning")))

    def last_ledger(self) -> LedgerEntry | None:
        """Return the last entry of the ledger."""
        entries = self._read_typed(_LEDGER, "SELECT at, entry, spent FROM ledger ORDER BY seq DESC LIMIT 1")
        return entries[0] if entries else None

    def ledger(self, after: int = 0) -> list[LedgerEntry]:
        """Return the entries of the ledger after sequence number `after`."""
        return self._read_typed(_LEDGER, "SELECT at, entry, spent FROM ledger WHERE seq > ?", after)

    def points(self, after: int = 0) -> list[Point]:
        """Return the points of the running curve after sequence number `after`."""
        return self._read_typed(_POINTS, f"{_SELECT_POINTS} WHERE seq > ? ORDER BY seq", after)

    def sampled_points(self, max_points: int) -> list[Point]:
        """Return at most `max_points` points, equally spaced by number, the newest one included."""
        newest = self.row_count("point")
        numbers = {newest - newest * index // max_points for index in range(max_points)} if newest else ()
        places = ", ".join("?" * len(numbers))
        return self._read_typed(_POINTS, f"{_SELECT_POINTS} WHERE seq IN ({places}) ORDER BY seq", *numbers)

    def row_count(self, name: str) -> int:
        """Return how many rows were ever committed to the table with this stored name, void ones included."""
        return int(self.query(f"SELECT COALESCE(MAX(seq), 0) FROM {name}")[0][0])  # noqa: S608

    def draws_done(self) -> float:
        """Return the draws of the batches that are done."""
        done = self.query("SELECT COALESCE(SUM(weight), 0) FROM batch WHERE batch IN (SELECT done.batch FROM done)")
        with as_harness_error(self.path):
            return float(done[0][0])

    def open_step(self) -> str:
        """Return the name of the last step of an open batch, such as "token 20 of 50"; empty without one."""
        steps = self.query("SELECT name FROM step ORDER BY at DESC LIMIT 1")
        return str(steps[0][0]) if steps else ""

    def stages(self, *, is_running: bool = False) -> list[StageWork]:
        """Return the work of each stage that has begun or was announced, in order.

        If the job is running, the work of open batches counts as far as it is reported.
        """
        with as_harness_error(self.path):
            done: dict[str, list[tuple[float, float, float, bool]]] = {}
            batches = self.query(
                "SELECT key, weight, attempt.at, done.at, 1 FROM done "
                "JOIN attempt USING (batch, attempt) JOIN batch USING (batch)"
            )
            if is_running:
                batches += self.query(
                    "SELECT key, share * weight, attempt.at, step.at, 0 FROM step "  # noqa: S608
                    f"JOIN batch USING (batch) JOIN attempt USING (batch) {LAST_ATTEMPTS}"
                )
            for key, weight, begun, ended, is_done in sorted(batches, key=lambda batch: float(batch[2])):
                # The key of a batch is STAGE/PASS/FIRST EXAMPLE.
                stage = str(key).rsplit("/", 2)[0]
                done.setdefault(stage, []).append((float(weight), float(begun), float(ended), bool(is_done)))
            stages = []
            plan = self.query("SELECT stage, weight, draw_weight, is_announced FROM plan ORDER BY seq")
            for stage, announced, draw_weight, is_announced in plan:
                parts = done.get(stage, [])
                stages.append(
                    StageWork(
                        str(stage),
                        float(announced),
                        sum(weight for weight, *_ in parts),
                        sum(is_done for *_, is_done in parts),
                        draw_weight=float(draw_weight),
                        seconds=_covered_seconds((begun, ended) for _, begun, ended, _ in parts),
                        is_announced=bool(is_announced),
                    )
                )
            return stages

    def done_keys(self) -> list[str]:
        """Return the keys of the batches that are done."""
        rows = self.query("SELECT key FROM batch WHERE batch IN (SELECT done.batch FROM done) ORDER BY batch")
        return [row[0] for row in rows]

    def batch_sizes(self) -> dict[str, int]:
        """Return the measured size of the batches of each loop."""
        events = self.events_named("worker_batch_size")
        with as_harness_error(self.path):
            return {str(event["loop"]): int(event["size"]) for event in events}

    def kept_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that the attack keeps, by name."""
        query = "SELECT name, dtype, shape, data FROM kept ORDER BY seq"
        with as_harness_error(self.path):
            return {
                name: np.frombuffer(data, np.dtype(dtype)).reshape(json.loads(shape))
                for name, dtype, shape, data in self.query(query)
            }

    def repeated_batches(self) -> dict[int, int]:
        """Return the last attempt of each batch that was begun more than once; rows of earlier attempts are void."""
        return dict(self.query("SELECT batch, MAX(attempt) FROM attempt WHERE attempt > 1 GROUP BY batch"))

    def work_done(self, after: int = 0) -> list[tuple[int, float, float]]:
        """Return the batches done after sequence number `after`: seq, time, weight in draws."""
        query = (
            "SELECT done.seq, done.at, weight FROM done JOIN batch USING (batch) WHERE done.seq > ? ORDER BY done.seq"
        )
        return self._read_typed(_WORK, query, after)

    def telemetry(self, after: int = 0) -> list[tuple[int, float, dict[str, Any]]]:
        """Return the telemetry samples after sequence number `after`: seq, time, sample."""
        query = "SELECT seq, at, sample FROM telemetry WHERE seq > ? ORDER BY seq"
        return self._read_typed(_SAMPLES, query, after)

    def last_telemetry(self) -> dict[str, Any]:
        """Return the last telemetry sample; empty before the first one."""
        query = "SELECT sample FROM telemetry ORDER BY seq DESC LIMIT 1"
        return next((sample for (sample,) in self._read_typed(_DETAILS, query)), {})

    def _read_typed(self, rows: TypeAdapter[list[RowType]], query: str, *values: Any) -> list[RowType]:
        """Return the rows of a query. A column of SQLite can hold a value of any type, so each one is checked."""
        with as_harness_error(self.path):
            return rows.validate_python(self.query(query, *values))


def last_event(store: Path, name: str) -> dict[str, Any] | None:
    """Return the detail of the last event called `name` in the run.db `store`; None if either does not exist."""
    if not store.exists():
        return None
    with RunReader(store) as reader:
        return reader.last_event(name)


class EtaBasis(StrEnum):
    """The basis of an ETA.

    MEASURED: the pace of every stage with work left.
    ESTIMATED: a stage without a finished batch counts with its announced weight.
    STAGE: the job did not announce its stages, so that the ETA is that of the current stage alone.
    """

    MEASURED = "measured"
    ESTIMATED = "estimated"
    STAGE = "stage"


class Eta(NamedTuple):
    """The seconds that are left, and what they rest on."""

    seconds: float
    basis: EtaBasis


def progress_of(stages: Sequence[StageWork]) -> float | None:
    """Return the share of the announced work that is done, weighted by the time of a draw; None without work."""
    announced = sum(stage.announced * stage.draw_weight for stage in stages)
    done = sum(stage.done * stage.draw_weight for stage in stages)
    return min(1.0, done / announced) if announced > 0 else None


def eta_of(stages: Sequence[StageWork]) -> Eta | None:
    """Return the time that the remaining work takes; None before a batch is done that its pace can be measured by.

    A stage without a finished batch takes the pace of the stages of equal weight, else the mean pace by weight.
    """
    if not stages:
        return None
    # Stages are in the order in which they were announced or begun. After one that was not announced, another may come.
    last = stages[-1]
    covers_run = last.is_announced or [stage.stage for stage in stages] == [GUESS_STAGE]
    seconds, basis = 0.0, EtaBasis.MEASURED if covers_run else EtaBasis.STAGE
    for stage in stages if covers_run else [last]:
        if stage.left == 0:
            continue
        if stage.done > 0:
            seconds += stage.left * stage.seconds / stage.done
            continue
        if not covers_run or (pace := _estimated_pace(stage, stages)) is None:
            return None
        seconds, basis = seconds + stage.left * pace, EtaBasis.ESTIMATED
    return Eta(seconds, basis) if any(stage.done > 0 for stage in stages) else None


def _estimated_pace(stage: StageWork, stages: Sequence[StageWork]) -> float | None:
    """Return the seconds per draw of a stage without a finished batch; None if no stage has one."""
    with_work = [stage_done for stage_done in stages if stage_done.done > 0]
    alike = [stage_done for stage_done in with_work if stage_done.draw_weight == stage.draw_weight] or with_work
    work = sum(stage_done.done * stage_done.draw_weight for stage_done in alike)
    return stage.draw_weight * sum(stage_done.seconds for stage_done in alike) / work if work > 0 else None
