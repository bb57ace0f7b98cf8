"""The facts about a run, each declared once: commands, the TUI, documents and notebooks choose keys and an order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.inputs import as_harness_error
from harness.core.parameters import settings_from
from harness.core.scoring import Score
from harness.core.spec import TargetRecord
from harness.core.text import display_name, format_interval, format_number, format_score, pluralize, shorten
from harness.core.times import date_and_time, format_duration, utc_date_and_time
from harness.runs.audit_reader import AuditFigure, AuditReader
from harness.runs.folder import RunFolder
from harness.runs.specs import AuditSpec, RunSpec
from harness.runs.status import Status
from harness.runs.summary import RunSummary, run_summary
from harness.sandbox import backend_named

Event = tuple[int, float, str, dict[str, Any]]
_MAX_VALUE = 160
_GIB = 1 << 30
_DECODERS = {
    "the engine's decoder": "the engine's own decoder",
    "the model's code": "its own code with a cache, which is slower than the engine's own decoder",
    "whole sequences": "its own code without a cache, which reads the whole sequence again for each token",
}
"""The words for the ways in which a model decodes (`harness.engine.model_runner.ModelRunner.decoding`)."""


class Fact(NamedTuple):
    """One fact about a run."""

    key: str
    """The same wherever the fact is shown."""
    label: str
    value: Any
    text: str
    """The value for people, as recorded: whoever prints it makes control characters visible. Empty if unknown."""
    is_code: bool = False
    """True for a hash, or a name in a program."""


@dataclass(frozen=True)
class RunRecord:
    """The record of one run, which its facts are read from.

    events: the detail of the last event of each name.
    executions: the number of times that the run was started or resumed.
    loaded: the last report of the worker about each model, by its number; the reference model of an attack has 1.
    nondeterminism: why a second run may not give the same submission bytes; empty if it should.
    """

    spec: RunSpec
    summary: RunSummary | None = None
    """None for a run that was only planned."""
    events: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    executions: int = 0
    loaded: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    nondeterminism: tuple[str, ...] = ()
    warnings: Sequence[str] = ()
    figures: Sequence[AuditFigure] = ()


def read_record(folder: RunFolder) -> RunRecord:
    """Return the record of a run. Raises HarnessError if it cannot be read."""
    spec, summary = folder.spec(), run_summary(folder)
    if not folder.store.exists():
        return RunRecord(spec, summary)
    with as_harness_error(folder.path), AuditReader(folder.store) as reader:
        events, figures = reader.events(), reader.newest_figures() if spec.has_figures else ()
        loaded = {report.get("number", 0): report for report in reader.events_named("worker_target")}
        if (reference := reader.last_event("worker_reference")) is not None:
            loaded[1] = reference
        return RunRecord(
            spec,
            summary,
            reader.last_events(),
            sum(name == "execution" for _, _, name, _ in events),
            loaded,
            tuple(_nondeterminism(spec, summary.status, events)),
            reader.warnings(),
            figures,
        )


def model_sentences(record: RunRecord) -> Iterator[str]:
    """Yield how each local model was used, for the notes of an answer: decoding, precision, a template left out."""
    spec = record.spec
    models = spec.models if isinstance(spec, AuditSpec) else (spec.target, spec.reference)
    for number, model in enumerate(models):
        if model is None or "decoding" not in (loaded := record.loaded.get(number, {})):
            continue
        dtype, decoding = loaded["dtype"], loaded["decoding"]
        stored = (
            "" if loaded["stored_dtype"] in (None, dtype) else f" (its weights are stored in {loaded['stored_dtype']})"
        )
        yield f"{model.name} computed in {dtype}{stored} and decoded by {_DECODERS.get(decoding, decoding)}."
        if stored and len(record.loaded) > 1:
            yield f"A comparison with {model.name} is one of its stored weights only, because they computed in {dtype}."
        if loaded["has_chat_template"]:
            yield (
                f"{model.name} is an instruct model (its tokenizer has a chat template), and was given raw text "
                "without the template. In a chat it may answer otherwise."
            )


def facts_about(run: RunSummary, keys: Sequence[str] = ()) -> list[Fact]:
    """Return the known facts about a run: all of them, or those with the given keys, in the order of the keys."""
    return _with_keys(_summary_facts(run), keys)


def facts_in(record: RunRecord, keys: Sequence[str]) -> list[Fact]:
    """Return the known facts of a record with the given keys, in the order of the keys."""
    summary = [] if record.summary is None else _summary_facts(record.summary)
    return _with_keys([*summary, *_spec_facts(record), *_event_facts(record)], keys)


def _with_keys(facts: list[Fact], keys: Sequence[str]) -> list[Fact]:
    facts = [fact for fact in facts if fact.text]
    return [fact for key in keys for fact in facts if fact.key == key] if keys else facts


def _summary_facts(run: RunSummary) -> list[Fact]:
    is_scored = run.guesses > 0 and not run.is_blind
    left_out = f"{run.rows_left_out:,} rows beyond the row cap" if run.rows_left_out else ""
    network = "none" if run.network == "none" else f"{run.network}, as the job requested"
    sandbox = "" if run.sandbox is None else f"{run.sandbox} – {backend_named(run.sandbox).description}"
    return [
        Fact("run", "run", run.id, run.id, is_code=True),
        Fact("status", "status", run.status, " – ".join(filter(None, (run.status.words, run.reason)))),
        *_subject_facts(run.kind, run.attack, run.round, is_control=run.is_control),
        Fact("target", "target", run.target, run.target or ""),
        Fact("parameters", "parameters", run.changed, run.changed_text),
        Fact("time", "time", run.elapsed_s, f"{run.time_text} spent"),
        Fact("progress", "progress", run.progress, "" if run.progress is None else run.progress_text),
        Fact("stages", "stages", run.stages, _stages_text(run)),
        Fact("guesses", "guesses" if run.has_score else "rows", run.guesses, f"{run.guesses:,} committed"),
        Fact("rows", "rows", run.rows, f"{run.rows or 0:,} in the submission" if run.has_score else ""),
        Fact("left_out", "left out", run.rows_left_out, left_out),
        *score_facts(
            run.error_cap,
            run.known_recall,
            _recall_text(run) if run.has_score else "",
            run.exact_at_1 if is_scored else None,
            run.any_guess_correct if is_scored else None,
        ),
        interval_fact(run.recall_interval, run.recall_interval_unit if run.interval_text else None),
        Fact("device", "device", run.device, run.device or ""),
        Fact("created", "started", run.created_at, date_and_time(run.created_at)),
        Fact("directory", "directory", run.directory, run.directory),
        Fact("submission", "submission", run.submission, run.submission or ""),
        Fact("parent", "group", run.parent, run.parent or ""),
        Fact("tags", "tags", run.tags, ", ".join(run.tags)),
        Fact("note", "note", run.note, run.note),
        Fact("sandbox", "sandbox", run.sandbox, sandbox),
        Fact("in_force", "in force", run.in_force, "" if run.in_force is None else run.in_force.summary),
        Fact("network", "network", run.network, network if sandbox else ""),
    ]


def _subject_facts(kind: str, attack: str, round_: str, *, is_control: bool) -> list[Fact]:
    """Return the attack and its round, or the audit and its subject."""
    name = display_name(attack.removeprefix("audit "), is_control=is_control)
    return [
        Fact("attack", kind, attack, name),
        Fact("round", "round" if kind == "attack" else "subject", round_, round_),
    ]


def _spec_facts(record: RunRecord) -> Iterator[Fact]:
    """Yield the facts about what the job was given."""
    spec, labels = record.spec, record.spec.labels
    if record.summary is None:
        yield Fact("run", "run", spec.id, spec.id, is_code=True)
        yield from _subject_facts(spec.kind, labels.attack, labels.round, is_control=labels.is_control)
    params = {name: value for name, value in spec.params.items() if name != "form"}
    yield Fact("params", "parameters", params, _params_text(params) or "none")
    yield Fact("changed", "not default", labels.changed, _params_text(labels.changed))
    yield Fact("seed", "seed", spec.seed, str(spec.seed))
    yield Fact("budget", "budget", spec.budget, format_duration(spec.budget))
    yield Fact(
        "versions", "versions", spec.versions, ", ".join(f"{name} {text}" for name, text in spec.versions.items())
    )
    yield Fact("machine", "machine", spec.hardware, _machine_text(spec.hardware) if spec.hardware else "")
    if isinstance(spec, AuditSpec):
        for number, model in enumerate(spec.models):
            label = "tokenizer" if model.is_tokenizer_only else "model"
            yield from _model_facts(label, model, record.loaded.get(number))
        if endpoint := spec.params.get("endpoint"):
            form = spec.params.get("form")
            how = f", prompts as {form['prompt']}, log-probabilities by {form['field']}" if form else ""
            yield Fact("endpoint", "endpoint", endpoint, f"{endpoint}, model {spec.params.get('endpoint_model')}{how}")
        for name, file in spec.paths.items():
            yield Fact("inputs", name, file.path, f"{file.path.name}, sha256 {file.sha256}", is_code=True)
            yield Fact("input_paths", name, file.path, str(file.path))
        return
    rules, attack = spec.round, spec.attack
    training = ", no training examples" if rules.train_prefix_file is None else ""
    yield Fact("origin", "from", attack.origin, attack.origin)
    yield Fact("source", "attack source", attack.sha256, f"{attack.file}, sha256 {attack.sha256}", is_code=True)
    yield Fact("title", "title", rules.title, rules.title)
    text = f"{spec.examples:,} of {pluralize(spec.round_examples, 'example')}{training}"
    yield Fact("examples", "attacked", spec.examples, text)
    yield Fact("error_cap", "error cap", spec.error_cap, f"{spec.error_cap:,}")
    text = (
        f"prefixes of {rules.prefix_length} and suffixes of {pluralize(rules.suffix_length, 'token')}, error cap "
        f"{rules.error_cap:,}, row cap {rules.row_cap:,}, budget {format_duration(rules.budget)}"
    )
    yield Fact("rules", "rules", rules, text)
    files = ", ".join(f"{Path(file).name} {digest[:12]}" for file, digest in spec.data_sha256.items())
    yield Fact("data", "data (sha256)", spec.data_sha256, files)
    if spec.target is None:
        yield Fact("models", "target", None, "none: the attack does not use one")
    for number, (label, target) in enumerate((("target", spec.target), ("reference model", spec.reference))):
        if target is not None:
            yield from _model_facts(label, target, record.loaded.get(number))
    for sentence in model_sentences(record):
        yield Fact("model_notes", "model note", sentence, sentence)


def _event_facts(record: RunRecord) -> Iterator[Fact]:
    """Yield the facts about what happened in the run."""
    spec, nondeterminism = record.spec, list(record.nondeterminism)
    if record.summary is None or not record.summary.status.is_over:
        nondeterminism.insert(0, "the run is not over")
    text = (
        f"not guaranteed: {'; '.join(nondeterminism)}"
        if nondeterminism
        else ("yes, byte for byte, on the same device, precision, thread count and versions")
    )
    yield Fact("reproducible", "reproducible", not nondeterminism, text)
    times = "once" if record.executions == 1 else f"{record.executions:,} times"
    text = f"{utc_date_and_time(spec.created_at)}, started or resumed {times}"
    yield Fact("created_utc", "created", spec.created_at, text)
    if spec.devices:
        restarted = record.events.get("worker_restarted")
        again = "" if restarted is None else f"; worker {restarted['worker']} was started again: {restarted['reason']}"
        place = ", ".join(dict.fromkeys(spec.devices)) if spec.cluster is None else f"the Ray cluster {spec.cluster}"
        yield Fact("workers", "workers", spec.devices, f"{len(spec.devices)}, on {place}{again}")
    for figure in record.figures:
        yield Fact("figures", "figure", figure.value, figure.text)
    for sentence in record.warnings:
        yield Fact("warnings", "warning", sentence, sentence)


def _model_facts(label: str, model: TargetRecord, loaded: Mapping[str, Any] | None) -> Iterator[Fact]:
    """Yield the facts about a model. `loaded`: the report of the worker that loaded it."""
    revision = f", revision {model.revision} at {model.commit}" if model.commit else ""
    if loaded is None:
        text = f"{model.place}, precision {model.dtype}, {pluralize(model.threads, 'thread')}"
    else:
        name = f" ({loaded['device_name']})" if loaded.get("device_name") else ""
        place = f"{model.place}{name}, {loaded['blocks']} blocks" if model.shards else f"{loaded['device']}{name}"
        first = "" if loaded.get("bos_token") is None else f", token {loaded['bos_token']} first in every prefix"
        text = (
            f"{place}, {loaded['dtype']}, {pluralize(loaded['threads'], 'thread')}, {loaded['rows_at_once']} rows at "
            f"once, {loaded['architecture']}, {loaded['parameters'] / 1e6:,.1f} M parameters{first}"
        )
    origin = f", converted from the GGUF file with sha256 {model.source_sha256}" if model.source_sha256 else ""
    if model.adapter is not None:
        origin = f", merged into {model.base_name} (sha256 {model.adapter.base_sha256}){origin}"
    for key, name in (("models", model.name), ("local_models", model.id)):
        yield Fact(key, label, model.id, f"{name}{revision}, {model.hashed} sha256 {model.weights_sha256}{origin}")
        yield Fact(key, "loaded as", loaded, "" if model.is_tokenizer_only else text)


def score_facts(
    cap: int, recall: float | None, recall_text: str, exact_at_1: float | None, any_guess_correct: float | None
) -> list[Fact]:
    """Return the scores of a submission: recall at `cap` errors, exact@1, and the share with any correct guess."""
    first, best = ("" if share is None else format_score(share) for share in (exact_at_1, any_guess_correct))
    return [
        Fact("recall", recall_label(cap), recall, recall_text),
        Fact("exact_at_1", "exact@1", exact_at_1, first),
        Fact("any_guess_correct", "any guess correct", any_guess_correct, best),
    ]


def submission_facts(
    score: Score, exact_at_1: float | None = None, any_guess_correct: float | None = None
) -> list[Fact]:
    """Return the scores of a submission with its precision, and how much of it was read."""
    interval, precision = score.interval, score.precision_at_cap
    recall = f"{format_score(score.recall_at_cap)} {format_interval(interval.low, interval.high)}"
    first, *shares = score_facts(score.cap, score.recall_at_cap, recall, exact_at_1, any_guess_correct)
    read = f"{score.rows_read:,} of {score.rows:,}, {score.wrong_rows_read:,} of them wrong"
    return [
        first,
        Fact("precision", f"Precision@{score.cap:,}", precision, format_score(precision)),
        *shares,
        interval_fact(interval, interval.unit),
        Fact("solved", "examples solved", score.solved, f"{score.solved:,} of {score.examples:,}"),
        Fact("rows_read", "rows read", score.rows_read, read),
    ]


def interval_fact(interval: object, unit: object) -> Fact:
    """Return how the interval of a recall was computed: by a bootstrap over what; None for no interval."""
    return Fact("interval", "interval", interval, "" if unit is None else f"95 %, bootstrap over {unit}s")


def recall_label(cap: int) -> str:
    """Return the name of the recall at an error cap, such as `Recall@100`; `Recall` if the cap is 0."""
    return f"Recall@{cap:,}" if cap else "Recall"


def score_text(summary: RunSummary) -> str:
    """Return, for example, `Recall@100: 0.301 [0.256, 0.357]`, or why there is no score."""
    text = _recall_text(summary)
    return text if summary.known_recall is None else f"{recall_label(summary.error_cap)}: {text}"


def _nondeterminism(spec: RunSpec, status: Status, events: Sequence[Event]) -> Iterator[str]:
    if status in (Status.OUT_OF_TIME, Status.STOPPED, Status.CRASHED, Status.LOST):
        yield f"it ended {status.words}"
    if spec.network == "endpoint":
        yield "an endpoint may answer differently"
    if any(name == "worker_read_clock" for _, _, name, _ in events):
        yield "the attack read the clock"
    if any(name == "device" and detail.get("is_mixed") for _, _, name, detail in events):
        yield "its devices are of different models"
    used = [detail for _, _, name, detail in events if name == "execution"]
    if any(detail != used[0] for detail in used[1:]):
        yield "it was resumed with other versions or on another machine"


def _params_text(params: Mapping[str, Any]) -> str:
    return ", ".join(shorten(setting, _MAX_VALUE) for setting in settings_from(params))


def _machine_text(hardware: Mapping[str, Any]) -> str:
    gpus = ", ".join(map(str, hardware["gpus"]))
    return (
        f"{hardware['processor'] or hardware['machine']}, {pluralize(int(hardware['cores']), 'usable core')}, "
        f"{format_number(int(hardware['memory']) / _GIB)} GiB of memory, {f'GPU {gpus}' if gpus else 'no GPU'}; "
        f"{hardware['system']}, {hardware['machine']}"
    )


def _recall_text(run: RunSummary) -> str:
    if run.is_blind:
        return "blind round"
    if run.known_recall is None:
        return "no score" if run.status.is_over else "no score yet"
    part = " (a part of the round)" if run.is_partial else ""
    return f"{format_score(run.known_recall)}{run.interval_text}{part}"


def _stages_text(run: RunSummary) -> str:
    """Return how many of several stages are done, and the share of the current one that is."""
    stages = [stage for stage in run.stages if stage.announced > 0]
    if run.progress is None or len(stages) < 2:
        return ""
    complete = sum(stage.left == 0 for stage in stages)
    current = next((stage for stage in stages if stage.left > 0), None)
    now = "" if current is None else f", next {current.stage} ({current.done / current.announced:.0%})"
    return f"{complete:,} of {len(stages):,} done{now}"
