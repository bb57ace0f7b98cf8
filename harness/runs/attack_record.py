"""The stored record of an attack run: its summary, its inputs, its submission and the files of its results."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_clusters
from harness.core.files import file_sha256, write_atomically
from harness.core.guesses import Guesses
from harness.core.inputs import content_sha256
from harness.core.rounds import Round, load_round
from harness.core.scoring import correct_rows, exact_at_1, score_rows
from harness.core.spec import TargetRecord
from harness.core.submission import current_rows, submission_order, write_submission
from harness.core.text import display_name, sanitize
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader
from harness.runs.job_record import Counts, JobRecord, Labels
from harness.runs.reader import RunReader
from harness.runs.specs import AttackSpec


@dataclass(frozen=True)
class Submission:
    """ids [rows] and suffixes [rows, length] in submission order; `left_out` counts rows beyond the row cap."""

    ids: Ints
    suffixes: Tokens
    left_out: int


def submission_of(spec: AttackSpec, reader: GuessReader) -> Submission:
    """Return the current submission."""
    final = reader.final_order()
    return _submission(spec, ranked_guesses(spec, reader) if final is None else final)


def ranked_guesses(spec: AttackSpec, reader: GuessReader) -> Guesses:
    """Return the valid guesses in the order of their scores, limited to what the attack may submit per example."""
    return _rank(spec, reader.guesses())


def scorecard_of(spec: AttackSpec, submission: Submission) -> dict[str, Any]:
    """Return the content of scorecard.json: counts, and the score if answers are known."""
    counts: dict[str, Any] = {
        "round": spec.round.name,
        "rows": len(submission.ids),
        "rows_left_out": submission.left_out,
        "examples_guessed": int(np.unique(submission.ids).size),
    }
    answers = load_answers(spec.round)
    if answers is None:
        return counts | {"is_blind": True}
    clusters = load_clusters(spec.round)
    answers = answers[: spec.examples]
    score = score_rows(
        correct_rows(submission.ids, submission.suffixes, answers),
        submission.ids,
        cap=spec.error_cap,
        examples=len(answers),
        clusters=None if clusters is None else clusters[: spec.examples],
    )
    counts["exact_at_1"] = exact_at_1(submission.ids, submission.suffixes, answers)
    return counts | {"is_blind": False} | score.as_json()


def any_guess_correct(spec: AttackSpec, guesses: Guesses, final: Guesses | None) -> float | None:
    """Return the share of examples with any correct guess, an upper bound of recall; None in a blind round.

    `guesses` are all valid ones; the `final` order, if there is one, may contain suffixes that were never guessed.
    """
    answers = load_answers(spec.round)
    if answers is None:
        return None
    is_solved = np.zeros(spec.examples, np.bool_)
    for part in (guesses, final):
        if part is not None:
            is_solved[part.ids[correct_rows(part.ids, part.suffixes, answers)]] = True
    return float(is_solved.mean())


def submission_now(folder: RunFolder) -> Submission:
    """Return the current submission of a run."""
    spec = folder.attack_spec()
    with GuessReader.of_run(folder, spec) as reader:
        return submission_of(spec, reader)


def submission_with_scores(folder: RunFolder) -> tuple[Submission, Floats]:
    """Return the current submission and the score of each row, [rows]; for a final order the negative row number."""
    spec = folder.attack_spec()
    with GuessReader.of_run(folder, spec) as reader:
        final = reader.final_order()
        ordered = ranked_guesses(spec, reader) if final is None else final
    submission = _submission(spec, ordered)
    rows = len(submission.ids)
    return submission, ordered.score[:rows] if final is None else -np.arange(rows, dtype=np.float64)


def every_guess(folder: RunFolder) -> Guesses:
    """Return the valid guesses in arrival order, each (example, suffix) once."""
    with GuessReader.of_run(folder, folder.attack_spec()) as reader:
        guesses = reader.guesses()
    return guesses.part(current_rows(guesses.ids, guesses.suffixes))


def write_results(folder: RunFolder, spec: AttackSpec) -> None:
    """Write submission.csv and scorecard.json, each completely or not at all."""
    with GuessReader.of_run(folder, spec) as reader:
        guesses, final = reader.guesses(), reader.final_order()
    submission = _submission(spec, _rank(spec, guesses) if final is None else final)
    write_submission(folder.submission, submission.ids, submission.suffixes)
    write_atomically(folder.scorecard, scorecard_text(spec, submission, any_guess_correct(spec, guesses, final)))


def scorecard_text(spec: AttackSpec, submission: Submission, any_guess_correct: float | None) -> str:
    """Return the content of scorecard.json as it is written at the end of a run."""
    return json.dumps(scorecard_of(spec, submission) | {"any_guess_correct": any_guess_correct}, indent=2) + "\n"


def _rank(spec: AttackSpec, guesses: Guesses) -> Guesses:
    order = submission_order(
        guesses.ids, guesses.suffixes, guesses.score, per_example=spec.attack.guesses_per_example, row_cap=None
    )
    return guesses.part(order)


def _submission(spec: AttackSpec, ordered: Guesses) -> Submission:
    kept = min(len(ordered), spec.round.row_cap)
    return Submission(ordered.ids[:kept], ordered.suffixes[:kept], len(ordered) - kept)


class AttackRunRecord(JobRecord[AttackSpec]):
    """The record of one attack run."""

    screen = "guesses"

    def labels(self, spec: AttackSpec) -> Labels:
        reference = None if spec.reference is None else spec.reference.id
        return Labels(
            attack=spec.attack.name,
            round=spec.round.name,
            is_control=spec.attack.control,
            is_blind=spec.round.is_blind,
            is_partial=spec.is_partial,
            error_cap=spec.error_cap,
            changed=({"seed": spec.seed} if spec.seed else {})
            | ({"reference": reference} if reference not in (None, spec.attack.reference_model) else {})
            | {name: spec.params[name] for name in spec.changed if name in spec.params},
        )

    def counts(self, reader: RunReader, spec: AttackSpec) -> Counts:
        return Counts(reader.row_count("guess"), {})

    def write_results(self, folder: RunFolder, spec: AttackSpec) -> None:
        write_results(folder, spec)

    def changed_inputs(self, folder: RunFolder, spec: AttackSpec, weights_sha256: Sequence[str | None]) -> list[str]:
        changed = []
        code = folder.code / spec.attack.file
        if not code.exists() or file_sha256(code) != spec.attack.sha256:
            changed.append(f"the attack's source {code}")
        if spec.round.source is not None and not _is_as_recorded(spec.round):
            changed.append(f"the round in {spec.round.source}")
        for name, recorded in spec.data_sha256.items():
            if not Path(name).exists() or file_sha256(Path(name)) != recorded:
                changed.append(f"the round's file {name}")
        for name, record in spec.paths.items():
            if not record.path.exists() or content_sha256(record.path) != record.sha256:
                changed.append(f"{record.path} of the parameter {name}")
        for model, current in zip(spec.targets, chain(weights_sha256, repeat(None)), strict=False):
            if current != model.weights_sha256:
                changed.append(f"the weights of {model.id}")
        return changed

    def describe(self, folder: RunFolder, spec: AttackSpec) -> list[tuple[str, str]]:
        name = display_name(spec.attack.name, is_control=spec.attack.control)
        training = ", no training examples" if spec.round.train_prefix_file is None else ""
        rows = [
            ("attack", f"{name}, from {sanitize(spec.attack.origin)}"),
            ("round", f"{spec.round.name}, {spec.examples:,} of {spec.round_examples:,} examples{training}"),
        ]
        if spec.target is not None:
            rows.append(("target", _describe_model(spec.target)))
            rows.append(("device", _describe_device(folder, spec.target)))
        if spec.devices:
            rows.append(("workers", _describe_workers(folder, spec.devices)))
        if spec.reference is not None:
            rows.append(("reference", _describe_model(spec.reference)))
        return rows


def loaded_model(folder: RunFolder, role: Literal["target", "reference"]) -> dict[str, Any] | None:
    """Return what the worker reported when it had loaded the target or the reference; None if it has not."""
    if not folder.store.exists():
        return None
    with RunReader(folder.store) as reader:
        return reader.last_event(f"worker_{role}")


def _describe_model(model: TargetRecord) -> str:
    commit = f" at {model.commit}" if model.commit else ""
    return f"{sanitize(model.id)}{commit}, weights {model.weights_sha256[:12]}"


def _describe_device(folder: RunFolder, target: TargetRecord) -> str:
    """Return how the worker loaded the target, or how it will."""
    if (loaded := loaded_model(folder, "target")) is None:
        return f"{target.place}, precision {target.dtype}, {target.threads} threads"
    name = f" ({loaded['device_name']})" if loaded.get("device_name") else ""
    first = "" if loaded.get("bos_token") is None else f", token {loaded['bos_token']} first in every prefix"
    place = f"{target.place}{name}, {loaded['blocks']} blocks" if target.shards else f"{loaded['device']}{name}"
    return sanitize(
        f"{place}, {loaded['dtype']}, {loaded['threads']} threads, "
        f"{loaded['rows_at_once']} rows at once, {loaded['parameters'] / 1e6:,.1f} M parameters{first}"
    )


def _describe_workers(folder: RunFolder, devices: tuple[str, ...]) -> str:
    """Return the number of workers and their devices, and which one died last."""
    restarted = None
    if folder.store.exists():
        with RunReader(folder.store) as reader:
            restarted = reader.last_event("worker_restarted")
    again = "" if restarted is None else f"; worker {restarted['worker']} was started again: {restarted['reason']}"
    return sanitize(f"{len(devices)}, on {', '.join(dict.fromkeys(devices))}{again}")


def _is_as_recorded(recorded: Round) -> bool:
    """Return True if the round's file still says what the record says.

    The error cap of a fold follows from its data, and a blind round may get its answers later.
    """
    assert recorded.source is not None
    try:
        current = load_round(str(recorded.source))
    except HarnessError:
        return False
    if recorded.fold is not None:
        current = current.derived_fold(recorded.fold.index, recorded.fold.folds)
    ignored = {"error_cap"} if recorded.fold is not None else set()
    ignored |= {"answer_file"} if recorded.is_blind else set()
    return current.model_dump(exclude=ignored) == recorded.model_dump(exclude=ignored)
