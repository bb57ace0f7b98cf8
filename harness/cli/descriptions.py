"""The output of `harness show` for a run and for one example."""

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analysis.candidates import VERDICTS, Example
from harness.analysis.decoded_text import TokenText, text_of_run
from harness.cli.output import align_columns, sanitize
from harness.cli.records import noun_of_parent
from harness.core.errors import HarnessError
from harness.core.spec import TargetRecord
from harness.core.text import format_number
from harness.runs.facts import RunRecord, facts_in, read_record
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec
from harness.runs.summary import run_summary

if TYPE_CHECKING:
    from harness.engine.target import Target

MAX_CANDIDATES = 50
"""Candidates beyond the best ones are not scored: nobody reads them token by token."""
_INPUTS = (
    *("attack", "origin", "round", "examples", "local_models", "workers", "endpoint"),
    *("input_paths", "figures", "params", "changed", "seed", "warnings", "model_notes"),
)
_PLAN = ("run", *_INPUTS, "budget", "error_cap")
_RECORD = (
    *("run", "status", *_INPUTS),
    *("time", "progress", "stages", "guesses", "rows", "left_out"),
    *("recall", "interval", "exact_at_1", "any_guess_correct"),
    *("sandbox", "in_force", "network", "reproducible", "versions"),
    *("created", "directory", "submission", "parent", "tags", "note"),
)
"""The facts that `run --dry-run` and `show` print, in their order."""


def run_as_json(folder: RunFolder) -> dict[str, Any]:
    """Return the run's summary, its spec, and its models as they were loaded, for `show --json`.

    Keys:
        not_reproducible_because (string[]): Reasons that another run may give other bytes. Empty without one.
        target_as_loaded (object?): Device, precision and size of the target as the worker loaded it.
        reference_as_loaded (object?): Device, precision and size of the reference model.
        spec (object): Content of `spec.json`.
    """
    record = read_record(folder)
    return run_summary(folder).as_json() | {
        "not_reproducible_because": list(record.nondeterminism),
        "target_as_loaded": record.events.get("worker_target"),
        "reference_as_loaded": record.events.get("worker_reference"),
        "spec": record.spec.model_dump(mode="json"),
    }


def plan_as_json(spec: AttackSpec) -> dict[str, Any]:
    """Return the plan for `run --dry-run --json`.

    Keys:
        id (string): Id of the run that would start.
        attack (string): Name of the attack.
        round (string): Name of the round.
        target (string?): Id of the target.
        reference_model (string?): Hub id or directory of the reference model.
        params (object): Parameters of the attack.
        seed (number): Seed of the run.
        examples (number): Examples that are attacked.
        round_examples (number): Examples of the round.
        error_cap (number): Number of wrong rows at which scoring stops, for the attacked examples.
        budget_s (number): Time budget.
        spec (object): Content that `spec.json` would have.
    """
    recorded = spec.model_dump(mode="json")
    return {
        "id": spec.id,
        "attack": spec.attack.name,
        "round": spec.round.name,
        "target": spec.target_name,
        "reference_model": None if spec.reference is None else spec.reference.id,
        "params": recorded["params"],
        "seed": spec.seed,
        "examples": spec.examples,
        "round_examples": spec.round_examples,
        "error_cap": spec.error_cap,
        "budget_s": spec.budget,
        "spec": recorded,
    }


def describe_plan(spec: AttackSpec) -> str:
    """Return the facts that `run --dry-run` prints: lines of a name and a value, as in `show`."""
    return _lines(RunRecord(spec), _PLAN)


def describe(folder: RunFolder) -> str:
    """Return the facts that `show` prints: lines of a name and a value."""
    return _lines(read_record(folder), _RECORD)


def describe_example(folder: RunFolder, example: Example, probabilities: Mapping[str, Any] | None = None) -> str:
    """Return an example for `show --example`: prefix, answer, and each candidate with its verdict and score.

    With `probabilities` of the tokens, each text is followed by its mean and its least likely token.
    """
    text = text_of_run(folder, folder.attack_spec())
    rows = [("", "", "", "prefix", text.text(example.prefix.tolist()))]
    answer = "unknown: the round is blind" if example.answer is None else text.text(example.answer.tolist())
    rows.append(("", "", "", "answer", answer))
    if probabilities is not None and probabilities["answer"] is not None and example.answer is not None:
        rows.append(("", "", "", "", _least_likely(text, example.answer.tolist(), probabilities["answer"])))
    for place, candidate in enumerate(example.candidates, 1):
        rows.append(
            (
                f"{place}",
                VERDICTS[candidate.is_right],
                format_number(candidate.score),
                f"× {candidate.times}",
                text.text(candidate.suffix.tolist()),
            )
        )
        if probabilities is not None and place <= len(probabilities["candidates"]):
            scored = probabilities["candidates"][place - 1]
            rows.append(("", "", "", "", _least_likely(text, candidate.suffix.tolist(), scored)))
    if not example.candidates:
        rows.append(("", "", "", "", "no candidate yet"))
    return align_columns(rows)


def _least_likely(text: TokenText, ids: list[int], probabilities: list[float]) -> str:
    place = min(range(len(ids)), key=probabilities.__getitem__)
    mean = statistics.fmean(probabilities)
    minimum = f"token {place + 1}, {text.pieces(ids)[place]!r}: {format_number(probabilities[place])}"
    return f"mean probability {format_number(mean)}, least likely {minimum}"


def _lines(record: RunRecord, keys: Sequence[str]) -> str:
    rows = []
    for fact in facts_in(record, keys):
        label = noun_of_parent(fact.value) if fact.key == "parent" else fact.label
        rows.append((label, sanitize(fact.text)))
    return align_columns(rows)


def token_probabilities(folder: RunFolder, example: Example) -> dict[str, Any]:
    """Return the probabilities of the answer's tokens (null in a blind round) and of each of the first candidates.

    The model is the run's, in float32 on a CPU, so that the result is the same on every machine. Raises HarnessError if
    the run used no target, or if its weights are not there any more.

    Keys:
        answer (number[]?): Probability of each token of the answer. Null in a blind round.
        candidates (any[]): Probabilities of the tokens, one list for each of the first 50 candidates.
    """
    spec = folder.attack_spec()
    if not spec.targets:
        raise HarnessError(f"{spec.attack.name} does not use a target. Remove --probabilities.")
    suffixes = [candidate.suffix for candidate in example.candidates[:MAX_CANDIDATES]]
    if example.answer is not None:
        suffixes.append(example.answer)
    if not suffixes:
        return {"answer": None, "candidates": []}
    rows = np.stack(suffixes)
    target = _loaded(spec.targets[0], rows.shape[1], spec.round.vocabulary)
    logprobs = target.score(np.repeat(example.prefix[None], len(rows), axis=0), rows).token_logprobs
    by_token = np.exp(logprobs).round(6).tolist()
    answer = by_token.pop() if example.answer is not None else None
    return {"answer": answer, "candidates": by_token}


def _loaded(record: TargetRecord, length: int, vocabulary: int) -> "Target":
    if gone := next((path for path in record.paths if not path.exists()), None):
        raise HarnessError(f"{gone}: the target of the run is missing. Put it back.")
    # It loads torch.
    from harness.engine.loading import load_target

    return load_target(
        record.path,
        **record.loading | {"device": "cpu", "dtype": "float32"},
        suffix_length=length,
        vocabulary=vocabulary,
    )
