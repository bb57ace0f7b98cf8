"""What must hold before a run is packaged: each point with how to mend it, and whether it can be accepted as it is."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.syntax import syntax_tree
from harness.core.text import display_name, pluralize, shorten
from harness.core.times import format_duration
from harness.jobs.attack.spec import AttackSpec
from harness.runs.folder import RunFolder
from harness.runs.job_record import job_record
from harness.runs.machine import versions
from harness.runs.reader import RunReader
from harness.runs.status import Status
from harness.runs.summary import RunSummary, run_summary
from harness.sandbox import backend_named
from harness.sandbox.refusals import Refusal
from harness.submit.team import load_team

_MODEL_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".ckpt", ".h5")
_MAX_DESCRIPTION_BYTES = 1 << 20


class Check(NamedTuple):
    """One point of the list.

    sentence: what is so; mend: what to do where it is not met, '' where it is; can_be_accepted: `--accept NAME` goes on
    all the same, and the manifest says so.
    """

    name: str
    is_met: bool
    sentence: str
    mend: str = ""
    can_be_accepted: bool = False


def checklist(folder: RunFolder, *, team: Path | None, description: Path | None) -> list[Check]:
    """Every point, met or not, for the run with the team's file and its Markdown (None: not named yet).

    Raises HarnessError when the run's record cannot be read.
    """
    spec, summary = folder.spec(), run_summary(folder)
    return [
        _ended(summary),
        _control(spec),
        _round(spec),
        _whole(spec),
        _budget(spec, summary),
        _target(spec),
        _models(spec),
        _preprefixes(spec),
        _sandbox(folder),
        _network(summary),
        _inputs(folder, spec),
        _team(team),
        _description(description),
    ]


def refusal(checks: list[Check], accepted: frozenset[str]) -> HarnessError | None:
    """Why a run with these checks is not packaged, with what mends it; None when each is met or accepted."""
    unmet = [check for check in checks if not check.is_met and not (check.can_be_accepted and check.name in accepted)]
    if not unmet:
        return None
    first = unmet[0]
    accept = f"; --accept {first.name} packages it all the same and leaves a mark" if first.can_be_accepted else ""
    more = f" ({len(unmet) - 1} more: {', '.join(check.name for check in unmet[1:])})" if len(unmet) > 1 else ""
    return HarnessError(f"{first.name}: {first.sentence}; {first.mend}{accept}.{more}")


def reads_training(source: bytes) -> bool:
    """Whether the source of an attack speaks of training examples: it touches something called `train`."""
    return any(isinstance(node, ast.Attribute) and node.attr == "train" for node in ast.walk(syntax_tree(source)))


def _ended(summary: RunSummary) -> Check:
    if not summary.status.is_over:
        mend = f"wait for it, or harness stop {summary.id}"
        return Check("ended", False, f"the run is {summary.status.words}", mend)
    if summary.status in (Status.FINISHED, Status.OUT_OF_TIME):
        return Check("ended", True, f"the run ended {summary.status.words}")
    reason = f" ({shorten(summary.reason, 120).rstrip('.')})" if summary.reason else ""
    return Check(
        "ended", False, f"the run {summary.status.words}{reason}", f"harness resume {summary.id} goes on with it", True
    )


def _control(spec: AttackSpec) -> Check:
    if not spec.attack.control:
        return Check("control", True, f"{spec.attack.name} is an attack")
    name = display_name(spec.attack.name, is_control=True)
    return Check(
        "control", False, f"{name} measures something else and may not be submitted", "package a run of an attack"
    )


def _round(spec: AttackSpec) -> Check:
    if spec.round.fold is None:
        return Check("round", True, f"the round is {spec.round.name}")
    return Check(
        "round",
        False,
        f"{spec.round.name} is a fold of training rows, which nobody submits to",
        "run the attack on the round itself",
    )


def _whole(spec: AttackSpec) -> Check:
    if not spec.is_partial:
        return Check("partial", True, f"all {spec.round_examples:,} examples were attacked")
    sentence = f"--limit left {spec.round_examples - spec.examples:,} of {spec.round_examples:,} examples out"
    return Check("partial", False, sentence, "run it without --limit", True)


def _budget(spec: AttackSpec, summary: RunSummary) -> Check:
    allowed = spec.round.budget
    if spec.budget <= allowed:
        return Check(
            "budget", True, f"{format_duration(summary.elapsed_s)} were spent of the round's {format_duration(allowed)}"
        )
    sentence = f"its budget of {format_duration(spec.budget)} is beyond the round's {format_duration(allowed)}"
    if summary.elapsed_s <= allowed:
        return Check(
            "budget", True, f"{format_duration(summary.elapsed_s)} were spent of the round's {format_duration(allowed)}"
        )
    return Check(
        "budget", False, f"{sentence}, and it spent {format_duration(summary.elapsed_s)}", "run it within that", True
    )


def _target(spec: AttackSpec) -> Check:
    if spec.target is None:
        return Check("target", True, "the attack asks no model")
    if spec.target.id == spec.round.target:
        return Check("target", True, f"the target is the round's, {_last_part(spec.target.id)}")
    sentence = f"it attacked {_last_part(spec.target.id)} where the round's target is {_last_part(spec.round.target)}"
    return Check("target", False, sentence, "run it without --target", True)


def _models(spec: AttackSpec) -> Check:
    found = {name: model for name, record in spec.paths.items() if (model := _model_in(record.path)) is not None}
    if spec.attack.models:
        return Check("models", True, f"it declares the models {', '.join(spec.attack.models)}")
    if not found:
        return Check("models", True, "no parameter names another model")
    name, file = next(iter(found.items()))
    return Check(
        "models",
        False,
        f"the parameter {name} holds a model ({shorten(file)}) that the attack does not declare",
        "name it in the class attribute `models`",
        True,
    )


def _preprefixes(spec: AttackSpec) -> Check:
    sentence = "what stood before the attacked prefixes was out of its reach"
    file = spec.round.preprefix_file
    recorded = None if file is None else spec.data_sha256.get(str(file))
    for name, record in spec.paths.items():
        files = [record.path] if record.path.is_file() else [path for path in record.path.rglob("*") if path.is_file()]
        if recorded is not None and any(file_sha256(path) == recorded for path in files):
            mend = "take it away: an attack gets prefixes alone"
            return Check("preprefixes", False, f"the parameter {name} holds the pre-prefixes", mend, True)
    attacked, trained = spec.round.answer_rows, spec.round.train_rows
    is_one_file = spec.round.train_prefix_file == spec.round.prefix_file
    if is_one_file and not _are_apart(attacked, trained):
        return Check(
            "preprefixes",
            False,
            "the training rows hold attacked examples with what stood before them",
            "take a round whose train_rows leave answer_rows out",
            True,
        )
    return Check("preprefixes", True, sentence)


def _are_apart(attacked: tuple[int, int] | None, trained: tuple[int, int] | None) -> bool:
    return attacked is not None and trained is not None and (attacked[1] <= trained[0] or trained[1] <= attacked[0])


def _sandbox(folder: RunFolder) -> Check:
    means = []
    # A run that is about to start has no store yet.
    if folder.store.exists():
        with RunReader(folder.store) as reader:
            means = [detail.get("sandbox") for _, _, name, detail in reader.events() if name == "worker"]
    if means and all(backend_named(str(name)).is_sandbox for name in means):
        return Check("sandbox", True, f"it ran in a sandbox ({means[-1]})")
    sentence = "it ran without a sandbox, so that what it read is not known" if means else "no worker of it ever began"
    return Check("sandbox", False, sentence, "harness doctor says what gives one here; run it again", True)


def _network(summary: RunSummary) -> Check:
    count = summary.refused.get(Refusal.NETWORK, 0)
    if not count:
        return Check("network", True, "it asked for no network")
    sentence = f"the sandbox refused it {Refusal.NETWORK.words} ({pluralize(count, 'time')})"
    mend = "take that out of it: its organizers refuse what asks for a network"
    return Check("network", False, sentence, mend, True)


def _inputs(folder: RunFolder, spec: AttackSpec) -> Check:
    # The weights are not packed: whoever runs the code hashes them.
    weights = None if spec.target is None else spec.target.weights_sha256
    changed = job_record(spec).changed_inputs(folder, spec, (weights,))
    # What is installed here is what the bundle pins.
    now = versions()
    changed += [
        f"{name} {now.get(name)} where it ran on {was}" for name, was in spec.versions.items() if now.get(name) != was
    ]
    if not changed:
        return Check("inputs", True, "code, round, data, paths and versions are as recorded")
    return Check("inputs", False, f"changed since it began: {', '.join(changed)}", "bring them back, or run it again")


def _team(path: Path | None) -> Check:
    if path is None:
        return Check("team", False, "no team is named", "write team.toml with [[members]], or name it with --team")
    try:
        team = load_team(path)
    except HarnessError as error:
        return Check("team", False, str(error).rstrip("."), "correct it")
    return Check("team", True, f"the team is {shorten(team.title)}")


def _description(path: Path | None) -> Check:
    mend = "write what is new about the attack as Markdown, and name the file with --description"
    if path is None:
        return Check("description", False, "no description is named", mend)
    try:
        if path.exists() and not path.is_file():
            return Check("description", False, f"{path}: a folder or a device", mend)
        size = path.stat().st_size
        words = path.read_text(encoding="utf-8").split() if size <= _MAX_DESCRIPTION_BYTES else []
    except (OSError, UnicodeDecodeError):
        return Check("description", False, f"{path}: no text file", mend)
    if size > _MAX_DESCRIPTION_BYTES:
        return Check("description", False, f"{path}: larger than five pages ever are", "shorten it")
    if not words:
        return Check("description", False, f"{path}: is empty", mend)
    return Check("description", True, f"the description has {len(words):,} words")


def _model_in(path: Path) -> str | None:
    """The first file below `path` that looks like a model's weights."""
    files: Iterator[Path] = iter([path]) if path.is_file() else path.rglob("*")
    return next((file.name for file in files if file.suffix.lower() in _MODEL_SUFFIXES), None)


def _last_part(target: str) -> str:
    return Path(target).name if target.startswith("/") else target
