"""Bundles of one round, ranked by what their submissions score against the answers that the organizers hold."""

import csv
import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.arrays import Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.intervals import paired_difference
from harness.core.scoring import Score, correct_rows, score_rows
from harness.core.submission_reader import Submission, SubmissionRules, read_submission
from harness.core.walk import JudgedRows
from harness.submit.archive import unpack
from harness.submit.manifest import Manifest, manifest_faults, read_manifest
from harness.submit.prefixes import tokens_sha256
from harness.submit.team import load_team
from harness.submit.verdict import Outcome, StoredVerdict, produced_file, stored_verdict

_HARDWARE = ("processor", "cores", "gpus")
OnBundle = Callable[[str, int, int], None]
"""Called with a bundle's name, its number from 1 on, and how many there are."""


@dataclass(frozen=True)
class Judging:
    """What submissions are judged by. answers: [examples, suffix length], None while the round is blind; clusters:
    [examples] or None; prefixes: [examples, prefix length], which a bundle's submission must be for."""

    round: str
    prefixes: Tokens
    answers: Tokens | None
    clusters: Ints | None
    suffix_length: int
    vocabulary: int
    error_cap: int
    row_cap: int


@dataclass(frozen=True)
class Entry:
    """One bundle. place: from 1 on, None where it is not ranked for the reason in `unranked`.

    difference, difference_interval: recall less the leader's, paired; ties: that interval holds 0. seconds: as
    verified, else as the team's run spent; time_of_leader: over the leader's time, where both were measured on equal
    hardware.
    """

    bundle: str
    team: str
    attack: str
    place: int | None
    recall: float | None
    interval: tuple[float, float] | None
    unit: str | None
    difference: float | None
    difference_interval: tuple[float, float] | None
    ties: bool
    seconds: float | None
    time_of_leader: float | None
    hardware: str
    verified: str
    marks: tuple[str, ...]
    unranked: str

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return asdict(self)


class _Read(NamedTuple):
    """A bundle that could be read, and what its submission scores (None while the round is blind)."""

    path: Path
    team: str
    manifest: Manifest
    verdict: StoredVerdict | None
    walk: JudgedRows | None
    score: Score | None


def leaderboard(bundles: Sequence[Path], judging: Judging, on_bundle: OnBundle) -> list[Entry]:
    """The bundles, best first, and behind them by name those that cannot be ranked."""
    read: list[_Read] = []
    unranked: list[Entry] = []
    for number, path in enumerate(sorted(bundles), 1):
        on_bundle(path.name, number, len(bundles))
        try:
            read.append(_read(path, judging))
        except HarnessError as error:
            unranked.append(_unranked(path, str(error).rstrip(".")))
    ranked = sorted(read, key=lambda one: (-(one.score.recall_at_cap if one.score else 0.0), one.path.name))
    if judging.answers is None:
        return [_entry(one, None, None, judging) for one in ranked] + unranked
    places: list[Entry] = []
    for one in ranked:
        is_level = bool(places) and one.score is not None and one.score.recall_at_cap == places[-1].recall
        place = places[-1].place if is_level else len(places) + 1
        places.append(_entry(one, ranked[0], place, judging))
    return places + unranked


def as_csv(entries: Sequence[Entry]) -> str:
    """The entries as a table, a row each."""
    text = io.StringIO()
    names = list(Entry.__dataclass_fields__)
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows([_cells(entry) for entry in entries])
    return text.getvalue()


def _cells(entry: Entry) -> dict[str, Any]:
    def cell(value: Any) -> Any:
        if isinstance(value, tuple):
            return " ".join(map(str, value))
        # A spreadsheet takes what begins like this for a formula.
        return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value

    return {name: cell(value) for name, value in entry.as_json().items()}


def _read(path: Path, judging: Judging) -> _Read:
    """The bundle at `path`. Raises HarnessError for one whose manifest does not hold or whose rows break a rule."""
    with tempfile.TemporaryDirectory(prefix="harness-leaderboard-") as name:
        folder = Path(name)
        names = unpack(path, folder)
        manifest = read_manifest(folder)
        if faults := manifest_faults(manifest, folder, names):
            raise HarnessError(faults[0])
        if manifest.kind != "submission":
            raise HarnessError("it is code alone, without a submission.")
        if manifest.prefixes_sha256 != tokens_sha256(judging.prefixes, judging.vocabulary):
            raise HarnessError(f"its submission is for other prefixes than those of {judging.round}.")
        rules = SubmissionRules(len(judging.prefixes), judging.suffix_length, judging.vocabulary, judging.row_cap)
        try:
            team = load_team(folder / "team.toml").title
            rows = read_submission(folder / "submission.csv", rules)
        except HarnessError as error:
            raise HarnessError(str(error).replace(f"{folder}/", "")) from None
    verdict = stored_verdict(path, file_sha256(path))
    if verdict is not None and verdict.outcome is Outcome.REFUSED:
        raise HarnessError(f"verification refused it: {verdict.sentence}")
    if verdict is not None and verdict.outcome is not Outcome.REPRODUCED:
        # What its code does counts, and not what it came with.
        rows = _produced_rows(path, verdict, rules)
    if judging.answers is None:
        return _Read(path, team, manifest, verdict, None, None)
    walk = JudgedRows(correct_rows(rows.ids, rows.suffixes, judging.answers), rows.ids)
    score = score_rows(*walk, cap=judging.error_cap, examples=len(judging.answers), clusters=judging.clusters)
    return _Read(path, team, manifest, verdict, walk, score)


def _produced_rows(bundle: Path, verdict: StoredVerdict, rules: SubmissionRules) -> Submission:
    """What the bundle's code produced when it was verified. Raises HarnessError when that is no longer there."""
    path = produced_file(bundle)
    if not path.is_file() or file_sha256(path) != verdict.produced_sha256:
        raise HarnessError(f"{path.name}, which its code produced, is gone: delete its verdict, and verify it again.")
    return read_submission(path, rules)


def _entry(one: _Read, leader: _Read | None, place: int | None, judging: Judging) -> Entry:
    difference, bounds = None, None
    if one.walk is not None and leader is not None and leader.walk is not None and one is not leader:
        difference, (low, high, _) = paired_difference(
            one.walk, leader.walk, cap=judging.error_cap, examples=len(judging.prefixes), clusters=judging.clusters
        )
        bounds = (low, high)
    seconds, hardware = _time(one)
    of_leader = None
    if leader is not None and one is not leader:
        leading_seconds, leading_hardware = _time(leader)
        if seconds and leading_seconds and hardware == leading_hardware:
            of_leader = seconds / leading_seconds
    score = one.score
    return Entry(
        bundle=one.path.name,
        team=one.team,
        attack=one.manifest.attack,
        place=place,
        recall=None if score is None else score.recall_at_cap,
        interval=None if score is None else (score.interval.low, score.interval.high),
        unit=None if score is None else str(score.interval.unit),
        difference=difference,
        difference_interval=bounds,
        ties=bounds is not None and bounds[0] <= 0 <= bounds[1],
        seconds=seconds,
        time_of_leader=of_leader,
        hardware=", ".join(map(str, hardware)),
        verified=_verified(one.verdict),
        marks=tuple(mark.check for mark in one.manifest.marks),
        unranked="" if score is not None else "the round is blind until its answers arrive",
    )


def _time(one: _Read) -> tuple[float | None, tuple[Any, ...]]:
    """Seconds and the hardware that they were measured on: the verifier's, where it has run the code."""
    if one.verdict is not None and one.verdict.seconds is not None:
        return one.verdict.seconds, _equipment(one.verdict.hardware)
    run = one.manifest.run
    return (None, ()) if run is None else (run.spent_s, _equipment(run.hardware))


def _equipment(hardware: dict[str, Any]) -> tuple[Any, ...]:
    processor, cores, gpus = (hardware.get(name) for name in _HARDWARE)
    return (
        str(processor),
        f"{cores} cores",
        " + ".join(map(str, gpus)) if isinstance(gpus, list) and gpus else "no GPU",
    )


def _verified(verdict: StoredVerdict | None) -> str:
    if verdict is None:
        return "not verified"
    submitted = verdict.scores.get("submitted", {}).get("recall_at_cap")
    if verdict.outcome is Outcome.MEASURED and isinstance(submitted, float):
        return f"measured, {submitted:.3f} submitted"
    return verdict.outcome.words


def _unranked(path: Path, reason: str) -> Entry:
    return Entry(
        bundle=path.name,
        team="",
        attack="",
        place=None,
        recall=None,
        interval=None,
        unit=None,
        difference=None,
        difference_interval=None,
        ties=False,
        seconds=None,
        time_of_leader=None,
        hardware="",
        verified="",
        marks=(),
        unranked=reason,
    )
