"""Read run.db, without delaying its writer, and derive progress and ETA from the work of its stages."""

import json
import math
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
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
_PLAN = TypeAdapter(list[tuple[str, float, float, bool]])
SHARED_WORK = 0.6
"""n draws after one prefix are expected to take the time of n ** 0.6 single ones."""
_TELLING_SHARE = 0.2
"""The part of a batch after which its pace is taken for that of the stage."""
_TELLING_BATCHES = 3
"""The fewest batches whose pace is taken for that of the rest, once they are done."""
_ETA_PROGRESS, _ETA_BATCHES = 0.05, 3
"""The part of the work, or the batches, before which no ETA is shown."""
_LEAST_LEFT = 0.1
"""The part of an ETA that stays if nothing is reported for longer than it."""


def _parse_detail(text: Any) -> Any:
    try:
        # Unlike pydantic, it reads lone surrogates, which a text of the worker may contain.
        return json.loads(text)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


_Detail = Annotated[dict[Any, Any], BeforeValidator(_parse_detail)]
_DETAILS, _NAMED_DETAILS = TypeAdapter(list[tuple[_Detail]]), TypeAdapter(list[tuple[str, _Detail]])
_LOADS = TypeAdapter(list[tuple[float, _Detail]])
_EVENTS = TypeAdapter(list[tuple[int, float, str, _Detail]])


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
    """Name of the stage."""
    announced: float
    """Number of draws."""
    done: float
    """Draws of finished batches, and the reported share of the draws of running batches."""
    batches_done: int
    """Number of finished batches."""
    draw_weight: float = 1.0
    """Time of one draw relative to other stages."""
    seconds: float = 0.0
    """Time in which a batch ran: of finished batches, and of a running one until its last report."""
    is_announced: bool = False
    """True if the stage was announced before it began."""
    pace: float | None = None
    """Expected time of each remaining draw, in seconds. Null before a batch has begun."""
    telling_batches: int = 0
    """Number of batches that determine the pace, at most 2. The first one counts less: its size often differs."""

    @property
    def left(self) -> float:
        """The draws that are not done."""
        return max(0.0, self.announced - self.done)


class BatchWork(NamedTuple):
    """A batch that is done, or an open one until its last report.

    draws: of the whole batch; share: the part of them that is done; begun, ended: without the time in which a model
    was loaded.
    """

    key: str
    draws: float
    share: float
    begun: float
    ended: float
    is_done: bool

    @property
    def done(self) -> float:
        """The draws that are done."""
        return self.draws * self.share


_BATCHES = TypeAdapter(list[BatchWork])


def stages_of(
    plan: Iterable[tuple[str, float, float, bool]], batches: Iterable[BatchWork], passes: Mapping[str, int]
) -> list[StageWork]:
    """Return the work of the stages of a plan.

    plan: the name, the draws and the weight of a draw of each stage, and whether it was announced.
    passes: the examples of each stage with several passes over them.
    """
    by_stage: dict[str, list[BatchWork]] = {}
    for batch in sorted(batches, key=lambda batch: batch.begun):
        # The key of a batch is STAGE/PASS/FIRST EXAMPLE.
        by_stage.setdefault(batch.key.rsplit("/", 2)[0], []).append(batch)
    stages = []
    for stage, announced, draw_weight, is_announced in plan:
        parts = by_stage.get(stage, [])
        stages.append(
            StageWork(
                stage,
                announced,
                sum(batch.done for batch in parts),
                sum(batch.is_done for batch in parts),
                draw_weight,
                _covered_seconds(parts),
                is_announced,
                _pace(parts, announced, passes.get(stage, 0)),
                min(2, sum(batch.share >= _TELLING_SHARE for batch in parts)),
            )
        )
    return stages


def _pace(batches: Sequence[BatchWork], announced: float, examples: int) -> float | None:
    """Return the seconds that a draw of the rest of a stage is expected to take, None before one is done.

    The first batch of a pass counts only until the second one tells more, because its size may be another one. Of the
    others, the later half counts, and at least three: the pace may drift, as through a book.
    examples: those of a stage with several passes, 0 with one. The draws of the second pass share the beginnings of
    their suffixes.
    """
    begun = [batch for batch in batches if batch.done > 0]
    number = max((batch.key.rsplit("/", 2)[1] for batch in begun), default="")
    begun = [batch for batch in begun if batch.key.rsplit("/", 2)[1] == number]
    telling = [batch for batch in begun if batch.share >= _TELLING_SHARE] or begun
    telling = telling[1:] or telling
    telling = telling[-max(_TELLING_BATCHES, len(telling) // 2) :]
    if not telling:
        return None
    pace = _covered_seconds(telling) / sum(batch.done for batch in telling)
    if number == "0" and examples and (later := announced - examples) > 0:
        left = max(0.0, examples - sum(batch.done for batch in begun))
        return float(pace * (left + examples * ((announced / examples) ** SHARED_WORK - 1)) / (left + later))
    return pace


def _covered_seconds(batches: Iterable[BatchWork]) -> float:
    """Return the time in which at least one of the batches ran, which are ordered by their begin."""
    seconds, covered_to = 0.0, -math.inf
    for batch in batches:
        # A clock that is set back gives an end before the begin.
        seconds += max(0.0, batch.ended - max(batch.begun, covered_to))
        covered_to = max(covered_to, batch.ended)
    return seconds


class RunReader:
    """A read-only view of run.db.

    Raises HarnessError if there is no store, if it cannot be read, or if a newer version of the harness wrote it.
    """

    def __init__(self, path: Path) -> None:
        with as_harness_error(path):
            if not path.exists():
                raise HarnessError(f"{path}: the run has no store. Restore the file, or start a new run.")
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

    def newest_point(self) -> Point | None:
        """Return the newest point of the running curve."""
        points = self._read_typed(_POINTS, f"{_SELECT_POINTS} ORDER BY seq DESC LIMIT 1")
        return points[0] if points else None

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
        batches = self.query(
            "SELECT key, weight, 1.0, attempt.at, done.at, 1 FROM done "
            "JOIN attempt USING (batch, attempt) JOIN batch USING (batch)"
        )
        if is_running:
            batches += self.query(
                "SELECT key, weight, share, attempt.at, step.at, 0 FROM step "  # noqa: S608
                f"JOIN batch USING (batch) JOIN attempt USING (batch) {LAST_ATTEMPTS}"
            )
        plan = self.query("SELECT stage, weight, draw_weight, is_announced FROM plan ORDER BY seq")
        loads = self._read_typed(_LOADS, "SELECT at, detail FROM event WHERE name = 'worker_loaded'")
        with as_harness_error(self.path):
            works = []
            for batch in _BATCHES.validate_python(batches):
                inside = (load["seconds"] for at, load in loads if load["key"] == batch.key and batch.begun <= at)
                works.append(batch._replace(begun=batch.begun + sum(inside)))
            passes = {event["stage"]: int(event["examples"]) for event in self.events_named("worker_passes")}
            return stages_of(_PLAN.validate_python(plan), works, passes)

    def loading_since(self) -> float | None:
        """Return when the worker began to load a model, None if it loads none."""
        query = (
            "SELECT at, name = 'worker_loading' FROM event WHERE name IN "
            "('execution', 'worker_loading', 'worker_loaded') ORDER BY seq DESC LIMIT 1"
        )
        return next((float(at) for at, is_loading in self.query(query) if is_loading), None)

    def silence(self) -> float:
        """Return the seconds since the job's last report; 0 while a model is loaded."""
        tables = ("attempt", "step", "done", "event")
        times = " UNION ALL ".join(f"SELECT MAX(at) AS at FROM {name}" for name in tables)  # noqa: S608
        ((last,),) = self.query(f"SELECT MAX(at) FROM ({times})")  # noqa: S608
        return max(0.0, time.time() - last) if last and self.loading_since() is None else 0.0

    def loading_left(self, models: int) -> float:
        """Return the seconds that it is expected to take to load the rest of `models`, by those that were loaded."""
        loaded = {event.get("number", 0) for event in self.events_named("worker_target")}
        seconds = sum(float(event["seconds"]) for event in self.events_named("worker_loaded") if event["key"])
        return max(0, models - len(loaded)) * seconds / max(1, len(loaded))

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
    """The seconds that were left at the last report of a job, and what they rest on."""

    seconds: float
    basis: EtaBasis

    def after(self, silence: float) -> float:
        """Return the seconds that are left `silence` seconds after the last report."""
        return max(self.seconds - silence, _LEAST_LEFT * self.seconds)


def progress_of(stages: Sequence[StageWork]) -> float | None:
    """Return the share of the announced work that is done, weighted by the time of a draw; None without work."""
    announced = sum(stage.announced * stage.draw_weight for stage in stages)
    done = sum(stage.done * stage.draw_weight for stage in stages)
    return min(1.0, done / announced) if announced > 0 else None


def eta_of(stages: Sequence[StageWork]) -> Eta | None:
    """Return the time that the remaining work takes; None before there is enough work to measure the pace by.

    A stage without a finished draw takes the pace of the stages of equal weight, else the mean pace by weight.
    """
    if not stages:
        return None
    # Stages are in the order in which they were announced or begun. After one that was not announced, another may come.
    last = next((stage for stage in reversed(stages) if stage.left > 0), stages[-1])
    covers_run = last.is_announced or [stage.stage for stage in stages] == [GUESS_STAGE]
    covered = stages if covers_run else [last]
    seconds, basis = 0.0, EtaBasis.MEASURED if covers_run else EtaBasis.STAGE
    for stage in covered:
        if stage.left == 0:
            continue
        pace = _expected_pace(stage, stages) if covers_run else stage.pace
        if stage.pace is None and covers_run:
            basis = EtaBasis.ESTIMATED
        if pace is None:
            return None
        seconds += stage.left * pace
    batches = sum(stage.batches_done for stage in stages)
    is_early = batches < _ETA_BATCHES and (progress_of(covered) or 0.0) < _ETA_PROGRESS
    return None if is_early else Eta(seconds, basis)


def _expected_pace(stage: StageWork, stages: Sequence[StageWork]) -> float | None:
    """Return the seconds per draw of the rest of a stage: its own, or that of stages of which more batches tell it.

    Those of equal weight are preferred, and others count only if none of its own batches tells it. None if no stage has
    a pace.
    """
    better = [known for known in stages if known.pace is not None and known.telling_batches > stage.telling_batches]
    alike = [known for known in better if known.draw_weight == stage.draw_weight]
    sources = alike or ([] if stage.telling_batches else better)
    work = sum(source.announced * source.draw_weight for source in sources)
    seconds = sum(source.announced * (source.pace or 0.0) for source in sources)
    return stage.draw_weight * seconds / work if work > 0 else stage.pace
