"""Rank the bundles of one round by their score on the organizers' answers."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.errors import HarnessError
from harness.core.exports import write_rows
from harness.core.files import file_sha256, temporary_folder
from harness.core.inputs import read_bounded_text
from harness.core.intervals import JudgedRows
from harness.core.multiple_comparisons import paired_difference
from harness.core.rounds import Round
from harness.core.scoring import DRAWN_POINTS, ScoreCurve
from harness.core.submission_reader import SubmissionRows, SubmissionRules, read_submission
from harness.core.text import format_score, shorten
from harness.core.times import moment_text, parse_moment
from harness.submit.bundle_checks import (
    FrozenCode,
    bundle_sha256,
    check_frozen,
    check_other_models,
    open_bundle,
    read_submitted,
)
from harness.submit.judging import JudgingData
from harness.submit.manifest import Manifest
from harness.submit.team import load_team
from harness.submit.verdict import (
    Finding,
    FindingLog,
    Outcome,
    Verdict,
    error_in_bundle,
    load_verdict,
    produced_path,
    unexpected_clause,
)

_MAX_HARDWARE = 200
_MAX_ARRIVALS_BYTES = 1 << 20
OnBundle = Callable[[str, int, int], None]
"""Called with a bundle's name, its number from 1 on, and the number of bundles."""

NOT_VERIFIED = "not verified"
"""The word for a bundle whose code was not run again."""


@dataclass(frozen=True)
class Entry:
    """One bundle of the leaderboard."""

    bundle: str
    """File name of the bundle."""
    team: str = ""
    """Name of the team. Empty if the bundle is not ranked."""
    attack: str = ""
    """Name of the attack. Empty if the bundle is not ranked."""
    place: int | None = None
    """Place, from 1. Null if the bundle is not ranked."""
    recall_at_cap: float | None = None
    """Recall at the error cap, in [0, 1]."""
    recall_interval: tuple[float, float] | None = None
    """95 % interval of the recall: low, high."""
    curve: ScoreCurve | None = None
    """Recall and precision vs. errors, with at most 160 points. Null in a blind round."""
    recall_interval_unit: str | None = None
    """Unit that the bootstrap draws: `cluster` or `example`."""
    difference: float | None = None
    """Recall minus the leader's recall, paired."""
    difference_interval: tuple[float, float] | None = None
    """95 % interval of `difference`: low, high."""
    ties: bool = False
    """True if `difference_interval` contains 0."""
    elapsed_s: float | None = None
    """Wall clock of the verification, or of the team's run."""
    time_of_leader: float | None = None
    """Time relative to the leader's, on equal hardware."""
    hardware: str = ""
    """Machine on which the time was measured."""
    verified: str = ""
    """Verdict in words. Empty if the bundle is not ranked; `unranked` has the reason."""
    marks: tuple[str, ...] = ()
    """Accepted checks."""
    patch: str = ""
    """Size of the approved patch of the frozen code. Empty without a patch."""
    checks: tuple[Finding, ...] = ()
    """Checks of the verification, or of this ranking before there is one."""
    unranked: str = ""
    """Reason that the bundle is not ranked. Empty if it is."""


class _Scored(NamedTuple):
    """The entry of a valid bundle without its place, and its judged rows (None in a blind round)."""

    entry: Entry
    rows: JudgedRows | None


class Arrival(NamedTuple):
    """The arrival of a bundle and of its frozen code, which is None if the list does not say."""

    bundle: datetime
    code: datetime | None


@dataclass(frozen=True)
class OrganizerRecords:
    """The organizers' own records about the bundles, None for those that they do not keep.

    `frozen` is a directory: NAME.zip in it is the frozen code of the bundle NAME.zip, and NAME.patch an approved patch.
    `arrivals` maps the file name of a bundle to its arrival.
    """

    frozen: Path | None = None
    arrivals: Mapping[str, Arrival] | None = None

    def frozen_code(self, bundle: Path) -> FrozenCode | None:
        """Return the frozen code of a bundle, whose zip may be missing, or None without a directory."""
        if self.frozen is None:
            return None
        patch = self.frozen / f"{bundle.stem}.patch"
        return FrozenCode(self.frozen / bundle.name, patch if patch.exists() else None)

    def check_arrival(self, bundle: Path, round_: Round) -> None:
        """Raise HarnessError if the bundle or its frozen code is late, or if the list does not contain it."""
        if self.arrivals is None:
            return
        if (arrival := self.arrivals.get(bundle.name)) is None:
            raise HarnessError("the file of --received does not list this bundle. Add a line for it.")
        code_deadline = None if self.frozen is None else round_.code_deadline
        deadlines = (("the bundle", arrival.bundle, round_.closes), ("its frozen code", arrival.code, code_deadline))
        for item, at, deadline in deadlines:
            if deadline is not None and (at is None or at > deadline):
                arrived = "at an unknown time" if at is None else f"at {moment_text(at)}"
                raise HarnessError(f"not in time: {item} arrived {arrived}, due by {moment_text(deadline)}.")


def read_arrivals(path: Path) -> dict[str, Arrival]:
    """Read a CSV file with the columns `bundle` and `received`, and optionally `code_received`.

    Raises HarnessError, with the line, if a column is missing, a bundle occurs twice, or a time has no offset from UTC.
    """
    text = read_bounded_text(path, limit=_MAX_ARRIVALS_BYTES).removeprefix("\ufeff")
    rows = csv.DictReader(io.StringIO(text, newline=""), restval="", skipinitialspace=True)
    arrivals: dict[str, Arrival] = {}
    try:
        if missing := {"bundle", "received"} - set(rows.fieldnames or ()):
            raise HarnessError(f"no column {min(missing)}. The columns are bundle, received and code_received.")
        for row in rows:
            bundle, code = row["bundle"].strip(), row.get("code_received", "")
            if bundle in arrivals:
                raise HarnessError(f"{shorten(bundle)} occurs twice. Keep one line.")
            arrivals[bundle] = Arrival(
                parse_moment(row["received"], may_be_date=False),
                parse_moment(code, may_be_date=False) if code.strip() else None,
            )
    except csv.Error as error:
        raise HarnessError(f"{path}, line {rows.line_num}: not valid CSV ({error}). Correct that line.") from None
    except HarnessError as error:
        raise HarnessError(f"{path}, line {rows.line_num}: {error}") from None
    return arrivals


def leaderboard(
    bundles: Sequence[Path],
    judging: JudgingData,
    on_bundle: OnBundle,
    records: OrganizerRecords = OrganizerRecords(),
) -> list[Entry]:
    """Return the entries, best first. Bundles that cannot be ranked follow, by name.

    A bundle is not ranked if it breaks a rule of the round, or is late or has other code according to `records`.
    """
    scored: list[_Scored] = []
    unranked: list[Entry] = []
    for number, path in enumerate(sorted(bundles), 1):
        on_bundle(path.name, number, len(bundles))
        try:
            scored.append(_score_bundle(path, judging, records))
        except HarnessError as error:
            unranked.append(Entry(path.name, unranked=str(error).rstrip(".")))
        except Exception as error:
            # One bundle must not end the leaderboard of the others.
            unranked.append(Entry(path.name, unranked=unexpected_clause(error)))
    scored.sort(key=lambda bundle: (-(bundle.entry.recall_at_cap or 0.0), bundle.entry.bundle))
    entries: list[Entry] = []
    for bundle in scored:
        is_equal = bool(entries) and bundle.entry.recall_at_cap == entries[-1].recall_at_cap
        place = entries[-1].place if is_equal else len(entries) + 1
        entries.append(_rank(bundle, scored[0], place, judging))
    return entries + unranked


def leaderboard_csv(entries: Sequence[Entry]) -> str:
    """Return the entries as CSV, one row each. The columns are the fields, and two for each interval."""
    text = io.StringIO()
    write_rows(text, [_cells(Entry("")), *(_cells(entry).values() for entry in entries)])
    return text.getvalue()


def _cells(entry: Entry) -> dict[str, Any]:
    """Return the cells of an entry by column. Each number has its own cell, so that spreadsheets calculate with it."""
    cells: dict[str, Any] = {}
    values = asdict(entry)
    del values["checks"], values["curve"]  # several sentences, and lists
    for name, value in values.items():
        if name.endswith("_interval"):
            cells[f"{name}_low"], cells[f"{name}_high"] = value or (None, None)
        else:
            cells[name] = " ".join(value) if isinstance(value, tuple) else value
    return cells


def _score_bundle(path: Path, judging: JudgingData, records: OrganizerRecords) -> _Scored:
    """Read and score a bundle. Raises HarnessError if its manifest is wrong, or if it breaks a rule."""
    records.check_arrival(path, judging.round)
    log, sha256 = FindingLog(), bundle_sha256(path)
    with temporary_folder("harness-leaderboard-") as work:
        try:
            bundle = open_bundle(path, work, records.frozen_code(path), log)
            check_frozen(bundle, log)
            check_other_models(bundle, judging.round, log)
            if (rows := read_submitted(bundle, judging, log)) is None:
                log.fail("submission", "the bundle contains code only, no submission")
            team = load_team(bundle.folder / "team.toml").title
        except HarnessError as error:
            raise HarnessError(f"{error_in_bundle(error, work / 'bundle')}.") from None
    verdict = load_verdict(path, sha256)
    if verdict is not None and verdict.outcome is Outcome.REFUSED:
        raise HarnessError(f"verification refused a bundle in the name of {team}: {verdict.sentence}")
    if verdict is not None and verdict.outcome is not Outcome.REPRODUCED:
        # The submission that the code produced counts, not the one in the bundle.
        rows = _read_produced(path, verdict, judging.submission_rules)
    verified_patch = None if verdict is None else verdict.patch
    patch = verified_patch if bundle.difference is None else bundle.difference.patch
    judged, score = judging.judge(rows) or (None, None)
    seconds, hardware = _time_and_hardware(bundle.manifest, verdict)
    partial = bundle.manifest.partial_words(len(judging.prefixes))
    recall: dict[str, Any] = {"unranked": "the round is blind: its answers are not known yet"}
    if score is not None:
        low, high, unit = score.interval
        recall = {"recall_at_cap": score.recall_at_cap, "recall_interval": (low, high)}
        recall |= {"curve": score.recall_curve(DRAWN_POINTS)}
        recall |= {"recall_interval_unit": str(unit)}
    entry = Entry(
        bundle=path.name,
        team=team,
        attack=bundle.spec.attack.name,
        elapsed_s=seconds,
        hardware=hardware,
        verified=_verification(verdict),
        marks=tuple(partial if mark.check == "partial" else mark.check for mark in bundle.manifest.marks),
        patch="" if patch is None else patch.words,
        checks=tuple(log.findings) if verdict is None else verdict.findings,
        **recall,
    )
    return _Scored(entry, judged)


def _read_produced(bundle: Path, verdict: Verdict, rules: SubmissionRules) -> SubmissionRows:
    """Read the submission that verification produced. Raises HarnessError if the file is missing or was changed."""
    path = produced_path(bundle)
    if not path.is_file() or file_sha256(path) != verdict.produced_sha256:
        raise HarnessError(
            f"{path.name}, which its code produced, is missing or was changed. Delete the verdict and verify again."
        )
    return read_submission(path, rules)


def _rank(scored: _Scored, leader: _Scored, place: int | None, judging: JudgingData) -> Entry:
    """Return the entry with its place and its distance to the leader's; in a blind round, without either."""
    if scored.rows is None or leader.rows is None:
        return scored.entry
    entry, first = replace(scored.entry, place=place), leader.entry
    if scored is leader:
        return entry
    cap, examples = judging.round.error_cap, len(judging.prefixes)
    difference, (low, high, _), _ = paired_difference(
        scored.rows, leader.rows, cap=cap, examples=examples, clusters=judging.clusters
    )
    if entry.elapsed_s and first.elapsed_s and entry.hardware == first.hardware:
        entry = replace(entry, time_of_leader=entry.elapsed_s / first.elapsed_s)
    return replace(entry, difference=difference, difference_interval=(low, high), ties=low <= 0 <= high)


def _time_and_hardware(manifest: Manifest, verdict: Verdict | None) -> tuple[float | None, str]:
    """Return the seconds of the run and the hardware they were measured on: the verifier's if verified."""
    if verdict is not None and verdict.elapsed_s is not None:
        return verdict.elapsed_s, _hardware(verdict.hardware)
    run = manifest.run
    return (None, "") if run is None else (run.spent_s, _hardware(run.hardware))


def _hardware(hardware: dict[str, Any]) -> str:
    gpus = hardware.get("gpus")
    gpu_names = " + ".join(map(str, gpus)) if isinstance(gpus, list) and gpus else "no GPU"
    return shorten(f"{hardware.get('processor')}, {hardware.get('cores')} cores, {gpu_names}", _MAX_HARDWARE)


def _verification(verdict: Verdict | None) -> str:
    if verdict is None:
        return NOT_VERIFIED
    submitted = verdict.scores.get("submitted", {}).get("recall_at_cap")
    if verdict.outcome is Outcome.MEASURED and isinstance(submitted, float):
        return f"measured, {format_score(submitted)} submitted"
    return verdict.outcome.words
