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
from harness.core.parameters import settings_from
from harness.core.spec import TargetRecord
from harness.core.text import format_number
from harness.core.times import format_duration
from harness.runs.facts import facts_about, input_facts, nondeterminism_reasons
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader, last_event
from harness.runs.specs import AttackSpec, RunSpec
from harness.runs.summary import RunSummary, run_summary
from harness.sandbox import backend_named

_COURSE = (
    "time",
    "progress",
    "stages",
    "guesses",
    "rows",
    "left_out",
    "recall",
    "interval",
    "exact_at_1",
    "any_guess_correct",
)
_PLACE = ("created", "directory", "submission", "parent", "tags", "note")
"""The facts that `show` prints about the course of a run, and about its record."""


def run_as_json(folder: RunFolder) -> dict[str, Any]:
    """Return what `show --json` prints: the run's summary, its spec, and its models as they were loaded."""
    return run_summary(folder).as_json() | {
        "not_reproducible_because": _nondeterminism(folder),
        "target_as_loaded": last_event(folder.store, "worker_target"),
        "reference_as_loaded": last_event(folder.store, "worker_reference"),
        "spec": folder.spec().model_dump(mode="json"),
    }


def plan_as_json(spec: AttackSpec) -> dict[str, Any]:
    """Return what `run --dry-run --json` prints; `spec` is the content of spec.json, with the names of that file."""
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
    """Return what `run --dry-run` prints: lines of a name and a value, as in `show`."""
    rows = [("run", spec.id), *_input_rows(RunFolder.of(spec.id), spec)]
    return _lines([*rows, ("budget", format_duration(spec.budget)), ("error cap", f"{spec.error_cap:,}")])


def describe(folder: RunFolder) -> str:
    """Return what `show` prints: lines of a name and a value."""
    spec, summary = folder.spec(), run_summary(folder)
    rows = [*_facts(summary, ("run", "status")), *_input_rows(folder, spec), *_facts(summary, _COURSE)]
    if summary.sandbox is not None:
        rows += _sandbox_rows(summary)
    reasons = _nondeterminism(folder)
    rows.append(("reproducible", f"not guaranteed: {'; '.join(reasons)}" if reasons else "yes, byte for byte"))
    rows.append(("versions", ", ".join(f"{name} {value}" for name, value in spec.versions.items())))
    return _lines([*rows, *_facts(summary, _PLACE)])


def describe_example(folder: RunFolder, example: Example, probabilities: Mapping[str, Any] | None = None) -> str:
    """Return what `show --example` prints: prefix, answer, and each candidate with its verdict and score.

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
    least = f"token {place + 1}, {text.pieces(ids)[place]!r}: {format_number(probabilities[place])}"
    return f"mean probability {format_number(mean)}, least likely {least}"


def _lines(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _input_rows(folder: RunFolder, spec: RunSpec) -> list[tuple[str, str]]:
    """Return what the job was given."""
    rows = [*input_facts(folder, spec), ("params", _params_text(spec.params))]
    if changed := spec.labels.changed:
        rows.append(("not default", _params_text(changed)))
    rows.append(("seed", str(spec.seed)))
    if folder.store.exists():
        with RunReader(folder.store) as reader:
            rows += [("warning", sanitize(sentence)) for sentence in reader.warnings()]
    return rows


def _params_text(params: Mapping[str, Any]) -> str:
    # The form of an endpoint is described in a row of its own.
    shown = {name: value for name, value in params.items() if name != "form"}
    return sanitize(", ".join(settings_from(shown)) or "none")


def _facts(summary: RunSummary, keys: Sequence[str]) -> list[tuple[str, str]]:
    facts = {fact.key: (fact.label, sanitize(fact.text)) for fact in facts_about(summary, keys)}
    if "parent" in facts and summary.parent is not None:
        facts["parent"] = (noun_of_parent(summary.parent), facts["parent"][1])
    return list(facts.values())


def _sandbox_rows(summary: RunSummary) -> list[tuple[str, str]]:
    """Return the sandbox of the attack, its limits, and the network access."""
    rows = [("sandbox", sanitize(f"{summary.sandbox} – {backend_named(str(summary.sandbox)).description}"))]
    if summary.in_force is not None:
        rows.append(("in force", sanitize(summary.in_force.summary)))
    rows.append(("network", "none" if summary.network == "none" else f"{summary.network}, as the job requested"))
    return rows


def _nondeterminism(folder: RunFolder) -> list[str]:
    return nondeterminism_reasons(folder) if folder.store.exists() else []


if TYPE_CHECKING:
    from harness.engine.target import Target

MOST_CANDIDATES = 50
"""Candidates beyond the best ones are not scored: nobody reads them token by token."""


def token_probabilities(folder: RunFolder, example: Example) -> dict[str, Any]:
    """Return the probabilities of the answer's tokens (null in a blind round) and of each of the first candidates.

    The model is the run's, in float32 on a CPU, so that the result is the same on every machine. Raises HarnessError if
    the run used no target, or if its weights are not there any more.
    """
    spec = folder.attack_spec()
    if not spec.targets:
        raise HarnessError(f"{spec.attack.name} does not use a target, so tokens have no probability.")
    suffixes = [candidate.suffix for candidate in example.candidates[:MOST_CANDIDATES]]
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
    if not record.path.exists():
        raise HarnessError(f"{record.path}: the target of the run is not there any more.")
    # It loads torch.
    from harness.engine.loading import load_target

    return load_target(
        record.path, device="cpu", dtype="float32", threads=record.threads, suffix_length=length, vocabulary=vocabulary
    )
