"""A run in a few figures, read from its directory: what every list, line and `--json` shows."""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import field, replace
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from harness.core.audit import FIGURES
from harness.core.errors import HarnessError
from harness.core.files import read_start, write_atomically
from harness.core.inputs import as_harness_error
from harness.core.parameters import settings_from
from harness.core.spec import JobSpec
from harness.core.text import display_name, format_interval, sanitize, shorten
from harness.core.times import format_duration
from harness.runs.audit_reader import AuditReader
from harness.runs.folder import RunFolder, all_run_folders
from harness.runs.machine import hardware, versions
from harness.runs.queue import Wait, wait_of
from harness.runs.reader import EtaBasis, RunReader, StageWork, eta_of, last_event, progress_of
from harness.runs.specs import AuditSpec, RunSpec
from harness.runs.status import Status, derived_status
from harness.runs.tags import tags_of
from harness.sandbox.policy import AppliedSandbox

LAUNCH_SECONDS = 30.0
"""Seconds in which a supervisor that was started takes the lock of its run; until then the run is starting."""
NEARLY_FULL_BYTES = 1 << 20
Fraction = Annotated[float, Field(ge=0, le=1)]
RecordState = list[list[int] | None]


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One run at one moment. The `attack` of an audit is "audit NAME", and its subject is the `round`.

    Raises ValueError for a field of another type: a damaged store may contain anything.
    """

    id: str
    """Id of the run."""
    kind: str
    """`attack` or `audit`."""
    status: Status
    """State of the run."""
    reason: str
    """Reason for the status. Empty without a reason."""
    attack: str
    """Name of the attack. For an audit: `audit NAME`."""
    is_control: bool
    """True if the attack is a control, which may not be submitted."""
    round: str
    """Name of the round. For an audit: its input."""
    target: str | None
    """Id of the target."""
    is_blind: bool
    """True if the round has no answers."""
    is_partial: bool
    """True if only the first examples are attacked (`--limit`)."""
    error_cap: int
    """Number of wrong rows at which scoring stops, for the attacked examples."""
    recall_at_cap: float | None = None
    """Recall at the error cap so far, in [0, 1]. Null in a blind round and before the first score."""
    recall_interval: tuple[float, float] | None = None
    """95 % interval of the recall: low, high."""
    recall_interval_unit: str | None = None
    """Unit that the bootstrap draws: `cluster` or `example`."""
    exact_at_1: float | None = None
    """Share of examples whose first row is correct."""
    any_guess_correct: float | None = None
    """Share of examples with any correct guess, an upper bound for every order."""
    figures: dict[str, float | None]
    """Current measured values of an audit, by name."""
    figure_counts: dict[str, int] = field(default_factory=dict)
    """Number of observations of each measured value; 0 if there is none."""
    guesses: int
    """Committed guesses. For an audit: rows."""
    rows: int | None = None
    """Rows of the submission."""
    rows_left_out: int | None = None
    """Rows beyond the row cap."""
    elapsed_s: float
    """Time spent."""
    budget_s: float
    """Time budget."""
    progress: float | None
    """Share of the announced work that is done, weighted by the time of a draw, in [0, 1]. Null before work is
    announced.
    """
    eta_s: float | None = None
    """Time to the end of the work. Null before three batches or 5 % of the work are done."""
    created_at: float
    """Time of creation, in seconds since the epoch."""
    directory: str
    """Directory of the run."""
    submission: str | None
    """Path of `submission.csv`."""
    device: str | None
    """Device that the run holds."""
    sandbox: str | None
    """Name of the sandbox backend, as in `HARNESS_SANDBOX`."""
    in_force: AppliedSandbox | None
    """The sandbox as it was applied."""
    network: str
    """Network access of the run."""
    note: str
    """Note of the user. Empty without a note."""
    tags: tuple[str, ...]
    """Tags of the user, sorted."""
    parent: str | None
    """Id of the tuning or sweep, or name of the group, that the run belongs to."""
    changed: dict[str, Any]
    """Parameters that are not the defaults of the attack, `seed` if it is not 0, and `reference` if it is not the
    attack's reference model.
    """
    queue_position: int | None = None
    """Place of a queued run among the runs that wait for the same device, from 1."""
    queue_length: int | None = None
    """Number of runs that wait for this device."""
    waits_for: str | None = None
    """Run that holds the device of a queued run. Null if it is not known."""
    wait_at_most_s: float | None = None
    """Longest wait of a queued run: the remaining budgets of the holder and of the runs before it."""
    wait_about_s: float | None = None
    """ETA of the run that holds the device of a queued run, after which the first run in the queue starts."""
    eta_basis: EtaBasis | None = None
    """Basis of `eta_s`. `measured`: the pace of all stages with work left. `estimated`: a stage without a finished
    batch counts with its announced weight. `stage`: the stages were not announced, so `eta_s` ends with the current
    one.
    """
    stages: tuple[StageWork, ...] = ()
    """Stages that have begun or were announced, in order."""
    step: str = ""
    """Last step of the batch that is running, such as "64 prefixes, token 20 of 50", or the loading of a model. Empty
    without a batch.
    """
    warning: str = ""
    """Newest warning of the worker. Empty without a warning."""

    @property
    def shown_attack(self) -> str:
        """The attack's name, marked if it is a control."""
        return display_name(self.attack, is_control=self.is_control)

    @property
    def changed_text(self) -> str:
        """The changed parameters and the seed, such as `seed=7 trials=4`."""
        return " ".join(settings_from(self.changed))

    @property
    def labelled_attack(self) -> str:
        """The attack's name with the parameters that were changed, shortened for a table."""
        return f"{self.shown_attack} {shorten(self.changed_text, 40)}".rstrip()

    @property
    def eta_text(self) -> str:
        """The ETA with what it rests on, such as `ETA about 11:05 (after the budget)`; empty without one."""
        if self.eta_s is None:
            return ""
        about = "about " if self.eta_basis is EtaBasis.ESTIMATED else ""
        scope = " for this stage" if self.eta_basis is EtaBasis.STAGE else ""
        is_late = self.eta_s > self.left_s
        return f"ETA {about}{format_duration(self.eta_s)}{scope}{' (after the budget)' if is_late else ''}"

    @property
    def progress_text(self) -> str:
        """The progress, the ETA and the last step of the open batch: `12%, ETA 4:05, 64 prefixes, token 20 of 50`."""
        done = "" if self.progress is None else f"{self.progress:.0%}"
        return ", ".join(filter(None, [done, self.eta_text, sanitize(self.step)]))

    @property
    def left_s(self) -> float:
        """The seconds that are left of the budget."""
        return max(0.0, self.budget_s - self.elapsed_s)

    @property
    def time_text(self) -> str:
        """The spent time and the budget, such as `0:07 of 0:10`."""
        return f"{format_duration(self.elapsed_s)} of {format_duration(self.budget_s)}"

    @property
    def known_recall(self) -> float | None:
        """The recall; None as well for a run without a single guess, whose recall of zero says nothing."""
        return self.recall_at_cap if self.guesses else None

    @property
    def interval_text(self) -> str:
        """The interval of the known recall with a space before it, such as ` [0.256, 0.357]`; empty without one."""
        return "" if self.recall_interval is None or not self.guesses else f" {format_interval(*self.recall_interval)}"

    @property
    def has_score(self) -> bool:
        """True if the run is scored by its recall at an error cap."""
        return self.error_cap > 0

    def as_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        fields: dict[str, Any] = _SUMMARY.dump_python(self, mode="json")
        return fields


_SUMMARY = TypeAdapter(RunSummary)


def run_status(folder: RunFolder) -> Status:
    """Return the status of the run. Raises HarnessError if its record cannot be read."""
    with as_harness_error(folder.path):
        folder.check_files()
        # The lock first: a supervisor that ends between the two readings has recorded its last phase.
        is_alive = folder.is_alive
        return _status(folder, last_event(folder.store, "phase"), is_alive=is_alive)


def run_summary(folder: RunFolder, state: RecordState | None = None) -> RunSummary:
    """Return the run's figures now. Raises HarnessError if its record cannot be read.

    state: that of the record, if it was read just now.
    """
    with as_harness_error(folder.path):
        folder.check_files()
        state = record_state(folder) if state is None else state
        if (cached := _cached_summary(folder, state)) is not None:
            return cached
        summary = _read_summary(folder)
        if summary.status.is_over and summary.status is not Status.LOST:
            # A list of a thousand runs reads the cache instead of a thousand databases.
            with contextlib.suppress(OSError):
                write_atomically(folder.summary, json.dumps({"state": state, "summary": summary.as_json()}))
        return summary


def record_state(folder: RunFolder) -> RecordState:
    """Return the size and the time of change of each file of the record; None for a file that cannot be found."""
    state: RecordState = []
    directory = f"{folder.path}/"
    for name in folder.record:
        try:
            stat = os.stat(directory + name)  # noqa: PTH116  the paths of a thousand runs would take longer
            state.append([stat.st_size, stat.st_mtime_ns])
        except OSError:
            state.append(None)
    return state


def execution_record(spec: JobSpec) -> dict[str, Any]:
    """Return the platform of an execution, to compare it with the other executions of the run."""
    threads = spec.targets[0].threads if spec.targets else None
    return {"versions": versions(), "hardware": hardware(), "threads": threads}


def readable_summaries(folders: Iterable[RunFolder], on_error: Callable[[str], object]) -> Iterator[RunSummary]:
    """Yield the summaries of runs. A run that cannot be read is left out, and `on_error` gets the reason."""
    for folder in folders:
        try:
            yield run_summary(folder)
        except HarnessError as error:
            on_error(f"{folder.id}: {error}")


def matching_summaries(
    *,
    on_error: Callable[[str], object],
    kind: str | None = None,
    statuses: Collection[str] | None = None,
    attack: str | None = None,
    round_: str | None = None,
    tags: Collection[str] | None = None,
    parent: str | None = None,
) -> Iterator[RunSummary]:
    """Yield the summaries of the runs that meet every condition that is given, newest first.

    kind: `attack` or `audit`.
    statuses: one of them.
    tags: all of them.
    parent: a group, a tuning or a sweep. Runs that cannot be read are left out as in `readable_summaries`.
    """
    for summary in readable_summaries(all_run_folders(), on_error):
        if (
            kind in (None, summary.kind)
            and (not statuses or summary.status in statuses)
            and attack in (None, summary.attack)
            and round_ in (None, summary.round)
            and set(tags or ()) <= set(summary.tags)
            and parent in (None, summary.parent)
        ):
            yield summary


def _read_summary(folder: RunFolder) -> RunSummary:
    spec, is_alive = folder.spec(), folder.is_alive
    stored, events = _read_store(folder, spec, is_running=is_alive)
    phase, worker = events.get("phase"), events.get("worker", {})
    status = _status(folder, phase, is_alive=is_alive)
    eta = None if status.is_over or status is Status.FINISHING else eta_of(stored["stages"])
    wait = wait_of(folder.id) if status is Status.QUEUED else None
    if wait is not None:
        wait = replace(wait, about_s=_eta_of_holder(wait))
    facts = stored | ({} if wait is None else wait.summary)
    if eta is not None:
        with RunReader(folder.store) as reader:
            loading = reader.loading_left(len(spec.models) if isinstance(spec, AuditSpec) else 0)
            left = eta.after(reader.silence() if status is Status.RUNNING else 0.0)
        facts |= {"eta_s": left + loading, "eta_basis": eta.basis}
    if status.is_over and status is not Status.LOST:
        facts |= _scorecard(folder)
    return RunSummary(
        id=folder.id,
        kind=spec.kind,
        status=status,
        reason=_reason(folder, status, phase or {}) if wait is None else wait.sentence,
        **vars(spec.labels),
        target=spec.target_name,
        **facts,
        budget_s=spec.budget,
        created_at=spec.created_at,
        directory=str(folder.path),
        submission=str(folder.submission) if folder.submission.exists() else None,
        device=events.get("device", {}).get("device"),
        sandbox=worker.get("sandbox"),
        in_force=worker.get("in_force"),
        network=spec.network,
        note=read_start(folder.note).decode().strip() if folder.note.is_file() else "",
        tags=tags_of(folder),
        parent=spec.parent,
    )


def _eta_of_holder(wait: Wait) -> float | None:
    # Of several devices, another one may be free before.
    if wait.waits_for is None or (wait.position > 1 and len(wait.devices) > 1):
        return None
    try:
        return run_summary(RunFolder.of(wait.waits_for)).eta_s
    except HarnessError:
        return None


def _cached_summary(folder: RunFolder, state: RecordState) -> RunSummary | None:
    """Return the cached summary if the record has not changed since."""
    try:
        cache = json.loads(read_start(folder.summary))
        if cache["state"] != state:
            return None
        # The directory of the runs may have been moved, and a change of the tags changes no file of the record.
        submission = None if cache["summary"]["submission"] is None else str(folder.submission)
        current = {"directory": "", "submission": None, "tags": ()}
        summary = _SUMMARY.validate_python(cache["summary"] | current)
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None
    return replace(summary, directory=str(folder.path), submission=submission, tags=tags_of(folder))


def _read_store(folder: RunFolder, spec: RunSpec, *, is_running: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a summary that run.db gives, and the detail of the last event of each name."""
    if not folder.store.exists():
        return {"stages": (), "progress": None, "guesses": 0, "figures": {}, "elapsed_s": 0.0}, {}
    with AuditReader(folder.store) as reader:
        events, ledger, point = reader.last_events(), reader.last_ledger(), reader.newest_point()
        figures = reader.newest_figures() if spec.has_figures else []
        stages, spent = tuple(reader.stages(is_running=is_running)), 0.0 if ledger is None else ledger.spent
        fields = {
            "stages": stages,
            "progress": progress_of(stages),
            "step": _step(reader) if is_running else "",
            "warning": str(events.get("worker_warning", {}).get("sentence", "")),
            "guesses": sum(reader.row_count(name) for name, rows in spec.stored_tables.items() if rows != FIGURES),
            "figures": {figure.name: figure.value for figure in figures},
            "figure_counts": {figure.name: figure.of for figure in figures},
            "elapsed_s": round(spent, 3),
        }
        return fields | ({} if point is None else {"recall_at_cap": point.recall, "rows": point.rows}), events


def _step(reader: RunReader) -> str:
    since = reader.loading_since()
    return reader.open_step() if since is None else f"loading the model, {format_duration(time.time() - since)}"


def _status(folder: RunFolder, phase: dict[str, Any] | None, *, is_alive: bool) -> Status:
    """Return the status from the last event `phase`; before the first one, a supervisor holds the lock or will soon."""
    if phase is not None:
        return derived_status(phase["phase"], is_alive=is_alive)
    is_young = time.time() - folder.spec_file.stat().st_mtime < LAUNCH_SECONDS
    return derived_status(None, is_alive=is_young or folder.is_alive)


def _reason(folder: RunFolder, status: Status, phase: dict[str, Any]) -> str:
    if status is Status.LOST:
        if shutil.disk_usage(folder.path).free < NEARLY_FULL_BYTES:
            return "its supervisor died, and its disk is full. Free some space, then harness resume continues it."
        return "its supervisor died. harness resume continues it."
    return str(phase.get("reason", ""))


class _Scorecard(BaseModel):
    """The fields of scorecard.json that a summary shows."""

    recall_at_cap: Fraction | None = None
    recall_interval: tuple[Fraction, Fraction] | None = None
    recall_interval_unit: str | None = None
    exact_at_1: Fraction | None = None
    any_guess_correct: Fraction | None = None
    rows: int | None = None
    rows_left_out: int | None = None


def _scorecard(folder: RunFolder) -> dict[str, Any]:
    try:
        scorecard = _Scorecard.model_validate_json(read_start(folder.scorecard))
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError):
        raise HarnessError(
            f"{folder.scorecard}: cannot be read. Delete it; harness score {folder.id} scores the run again."
        ) from None
    return scorecard.model_dump(exclude_unset=True)
