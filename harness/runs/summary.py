"""A run in a few figures, read from its folder: what every list, line and `--json` shows."""

import shutil
import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from harness.core.audit import FIGURES
from harness.core.errors import HarnessError
from harness.core.spec import AttackSpec, AuditSpec, JobSpec
from harness.core.text import display_name
from harness.runs.audit_reader import AuditReader
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.machine import hardware, versions
from harness.runs.reader import LedgerEntry, RunReader
from harness.runs.status import Status, derived_status, process_in
from harness.supervisor.standby import StandbyRecord, read_standby

_LAUNCH_SECONDS = 5.0
NEARLY_FULL_BYTES = 1 << 20
_FRESH_SECONDS = 3.0
"""How much budget after its last word the standby of a run that waits for room still speaks of now."""
Fraction = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class RunSummary:
    """One run at one moment, an audit too: its `attack` is then `audit` and its name, its `round` what it was given.

    kind: `attack` or `audit`; figures: what an audit has found so far, by name, the newest of each (None: no number);
    `guesses` are its rows. is_waiting_for_room: its disk is full, and nothing is acknowledged until there is room.
    recall_at_cap: of the scorecard, else of the running curve; None when blind or unscored. exact_at_1, any_of_n: the
    share of examples whose first row, or any candidate, is right, of the scorecard. progress: 0..1, None before
    the attack announced its work; eta_s: seconds of work left at the pace so far. in_force: what held
    the attack (`AppliedSandbox`); refused: what the sandbox refused the
    attack, to how often; network: what the job was let have of it.
    """

    id: str
    kind: str
    status: Status
    reason: str
    is_waiting_for_room: bool
    attack: str
    is_control: bool
    round: str
    target: str | None
    is_blind: bool
    is_partial: bool
    error_cap: int
    recall_at_cap: float | None
    recall_interval: tuple[float, float] | None
    recall_interval_unit: str | None
    exact_at_1: float | None
    any_of_n: float | None
    figures: dict[str, float | None]
    guesses: int
    rows: int | None
    rows_left_out: int | None
    elapsed_s: float
    budget_s: float
    progress: float | None
    eta_s: float | None
    created_at: float
    directory: str
    submission: str | None
    sandbox: str | None
    in_force: dict[str, Any] | None
    refused: dict[str, int]
    network: str
    note: str

    @property
    def shown_status(self) -> str:
        """The status as people read it, and that the run's disk is full."""
        return f"{self.status.words}, disk full" if self.is_waiting_for_room else self.status.words

    @property
    def shown_attack(self) -> str:
        """The attack's name, and whether it is a control."""
        return display_name(self.attack, is_control=self.is_control)

    def as_json(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return asdict(self)


def run_status(folder: RunFolder) -> Status:
    """What the run is doing, from its record and its supervisor's liveness.

    Raises HarnessError when the record cannot be read.
    """
    with as_harness_error(folder.path):
        if not folder.store.exists():
            return _unsupervised(folder)
        with RunReader(folder.store) as reader:
            return _status(folder, reader)


def run_summary(folder: RunFolder) -> RunSummary:
    """The run's figures now. Raises HarnessError when its record cannot be read."""
    with as_harness_error(folder.path):
        return _read_summary(folder)


def nondeterminism_reasons(folder: RunFolder) -> list[str]:
    """Why this run's submission may not come out again byte for byte; empty when it is expected to.

    Raises HarnessError when its record cannot be read.
    """
    with as_harness_error(folder.path), RunReader(folder.store) as reader:
        status, phases = _status(folder, reader), reader.events()
    reasons = []
    if status in (Status.OUT_OF_TIME, Status.STOPPED, Status.CRASHED, Status.LOST):
        reasons.append(f"it ended {status}")
    if any(name == "worker_read_clock" for _, _, name, _ in phases):
        reasons.append("the attack read the clock")
    used = [detail for _, _, name, detail in phases if name == "execution"]
    if any(detail != used[0] for detail in used[1:]):
        reasons.append("it was resumed with other versions or on another machine")
    return reasons


def execution_record(spec: JobSpec) -> dict[str, Any]:
    """What an execution ran on, for the comparison with the others of its run."""
    threads = spec.targets[0].threads if spec.targets else None
    return {"versions": versions(), "hardware": hardware(), "threads": threads}


def _read_summary(folder: RunFolder) -> RunSummary:
    spec = folder.job()
    note = folder.note.read_text(encoding="utf-8").strip() if folder.note.exists() else ""
    if not folder.store.exists():
        return _summary(folder, spec, run_status(folder), note)
    with RunReader(folder.store) as reader:
        status = _status(folder, reader)
        phase = reader.last_event("phase") or {}
        worker = reader.last_event("worker") or {}
        ledger, point, progress = reader.last_ledger(), reader.last_point(), reader.progress()
        refused = reader.last_event("refused") or {}
        guesses, figures = reader.guess_count(), dict[str, float | None]()
        if isinstance(spec, AuditSpec):
            with AuditReader(folder.store) as of_audit:
                guesses = sum(of_audit.row_count(table) for table in spec.tables if table.name != FIGURES.name)
                figures = {figure.name: figure.value for figure in of_audit.newest_figures()}
        started_with = progress.fraction
    standby = read_standby(folder.standby)
    elapsed = max(0.0 if ledger is None else ledger.spent, 0.0 if standby is None else standby.spent)
    is_waiting = not status.is_over and _waits_for_room(folder, ledger, standby)
    eta = None
    if started_with and not status.is_over:
        eta = elapsed * (1 - started_with) / started_with
    scorecard = _scorecard(folder) if status.is_over and status is not Status.LOST else {}
    return _summary(
        folder,
        spec,
        status,
        note,
        reason="disk full; waiting for room." if is_waiting else _reason(folder, status, phase),
        is_waiting_for_room=is_waiting,
        recall_at_cap=scorecard.get("recall_at_cap", None if point is None else point.recall),
        recall_interval=scorecard.get("recall_interval"),
        recall_interval_unit=scorecard.get("recall_interval_unit"),
        exact_at_1=scorecard.get("exact_at_1"),
        any_of_n=scorecard.get("any_of_n"),
        figures=figures,
        guesses=guesses,
        rows=scorecard.get("rows", None if point is None else point.rows),
        rows_left_out=scorecard.get("rows_left_out"),
        elapsed_s=round(elapsed, 3),
        progress=started_with,
        eta_s=eta,
        sandbox=worker.get("sandbox"),
        in_force=worker.get("in_force"),
        refused=refused,
    )


def _status(folder: RunFolder, reader: RunReader) -> Status:
    phase, supervisor = reader.last_event("phase"), reader.last_event("supervisor")
    if supervisor is None:
        return _unsupervised(folder)
    is_alive = process_in(supervisor).is_alive
    return derived_status(None if phase is None else str(phase["phase"]), supervisor_is_alive=is_alive)


def _unsupervised(folder: RunFolder) -> Status:
    """The status of a run whose record names no supervisor: a young one is about to."""
    is_young = time.time() - folder.spec_file.stat().st_mtime < _LAUNCH_SECONDS
    return Status.STARTING if is_young else Status.LOST


def _waits_for_room(folder: RunFolder, ledger: LedgerEntry | None, standby: StandbyRecord | None) -> bool:
    """Whether the supervisor said so lately; where not even that could be written, what the disk itself says."""
    if ledger is None or standby is None:
        return False
    if standby.is_waiting:
        return ledger.spent - standby.spent < _FRESH_SECONDS
    return time.time() - ledger.at > _FRESH_SECONDS and shutil.disk_usage(folder.path).free == 0


def _reason(folder: RunFolder, status: Status, phase: dict[str, Any]) -> str:
    if status is Status.LOST:
        if shutil.disk_usage(folder.path).free < NEARLY_FULL_BYTES:
            return "its supervisor died, and its disk is full; make room, then harness resume goes on where it was."
        return "its supervisor died; harness resume goes on where it was."
    return str(phase.get("reason", ""))


class _Scorecard(BaseModel):
    """What a summary takes from scorecard.json."""

    recall_at_cap: Fraction | None = None
    recall_interval: tuple[Fraction, Fraction] | None = None
    recall_interval_unit: str | None = None
    exact_at_1: Fraction | None = None
    any_of_n: Fraction | None = None
    rows: int | None = None
    rows_left_out: int | None = None


def _scorecard(folder: RunFolder) -> dict[str, Any]:
    try:
        scorecard = _Scorecard.model_validate_json(folder.scorecard.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError):
        raise HarnessError(
            f"{folder.scorecard}: cannot be read; delete it, and the run is listed by its record: "
            f"harness score {folder.id} scores it anew."
        ) from None
    return scorecard.model_dump(exclude_unset=True)


def _what_is_done(spec: AttackSpec | AuditSpec) -> dict[str, Any]:
    if isinstance(spec, AuditSpec):
        nothing = {"is_control": False, "is_blind": False, "is_partial": False, "error_cap": 0}
        return nothing | {"attack": f"audit {spec.audit}", "round": spec.subject}
    return {
        "attack": spec.attack.name,
        "is_control": spec.attack.control,
        "round": spec.round.name,
        "is_blind": spec.round.is_blind,
        "is_partial": spec.is_partial,
        "error_cap": spec.error_cap,
    }


def _summary(folder: RunFolder, spec: AttackSpec | AuditSpec, status: Status, note: str, **figures: Any) -> RunSummary:
    nothing: dict[str, Any] = {
        "reason": "",
        "is_waiting_for_room": False,
        "recall_at_cap": None,
        "recall_interval": None,
        "recall_interval_unit": None,
        "exact_at_1": None,
        "any_of_n": None,
        "figures": {},
        "guesses": 0,
        "rows": None,
        "rows_left_out": None,
        "elapsed_s": 0.0,
        "progress": None,
        "eta_s": None,
        "sandbox": None,
        "in_force": None,
        "refused": {},
    }
    return RunSummary(
        id=folder.id,
        kind=spec.kind,
        status=status,
        target=", ".join(target.id for target in spec.targets) or None,
        **_what_is_done(spec),
        budget_s=spec.budget,
        network=spec.network,
        created_at=spec.created_at,
        directory=str(folder.path),
        submission=str(folder.submission) if folder.submission.exists() else None,
        note=note,
        **(nothing | figures),
    )
