"""The checklist before a run is packaged: each check with its remedy, and whether a failure can be accepted."""

import ast
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.inputs import files_in
from harness.core.rounds import Round, load_round
from harness.core.text import display_name, shorten
from harness.core.times import format_duration, moment_text
from harness.plugins.declarations import syntax_tree
from harness.runs.folder import RunFolder
from harness.runs.launch import changed_inputs
from harness.runs.machine import versions
from harness.runs.reader import RunReader
from harness.runs.specs import AttackSpec
from harness.runs.summary import RunSummary, run_summary
from harness.sandbox import backend_named
from harness.submit.code_folder import is_model_file, other_models
from harness.submit.team import description_length, load_team


class Check(NamedTuple):
    """One check."""

    name: str
    """Name of the check, as in `--accept NAME`."""
    is_met: bool
    """True if the check is met."""
    sentence: str
    """State in words."""
    fix: str = ""
    """Advice for a failed check. Empty if the check is met."""
    can_be_accepted: bool = False
    """True if `--accept NAME` packages the run despite the failure. The manifest records it."""
    is_note: bool = False
    """True if the check is met, with a remark."""

    @property
    def sign(self) -> str:
        """✓ for a check that is met, · for one with a remark, ✗ for one that fails."""
        return "✗" if not self.is_met else "·" if self.is_note else "✓"


def checklist(folder: RunFolder, *, team: Path | None, description: Path | None) -> list[Check]:
    """Return all checks for a run, its team file and its description (None: not named yet).

    Raises HarnessError if the run's record cannot be read.
    """
    spec, summary = folder.attack_spec(), run_summary(folder)
    round_ = _round_with_all_rules(spec)
    return [
        _ended(summary),
        _control(spec),
        _round(spec, round_),
        _partial(spec),
        _budget(spec, summary),
        _target(spec),
        _models(spec, round_),
        _preprefixes(spec),
        _sandbox(folder),
        _inputs(folder, spec),
        _team(team),
        _description(description),
    ]


def refusal(checks: list[Check], accepted: frozenset[str]) -> HarnessError | None:
    """Return the error for the failed checks that are not accepted, or None if there are none."""
    unmet = [check for check in checks if not check.is_met and not (check.can_be_accepted and check.name in accepted)]
    if not unmet:
        return None
    first = unmet[0]
    accept = f", or package it despite this with --accept {first.name}" if first.can_be_accepted else ""
    more_names = ", ".join(check.name for check in unmet[1:])
    more = f" {len(unmet) - 1} more: {more_names}; --check lists them." if more_names else ""
    return HarnessError(f"{first.name}: {first.sentence}. {first.fix[:1].upper()}{first.fix[1:]}{accept}.{more}")


def uses_training_rows(source: bytes) -> bool:
    """Return True if the source of an attack accesses an attribute named `train`."""
    return any(isinstance(node, ast.Attribute) and node.attr == "train" for node in ast.walk(syntax_tree(source)))


def _ended(summary: RunSummary) -> Check:
    if not summary.status.is_over:
        fix = f"wait for the run to end, or stop it with harness stop {summary.id}"
        return Check("ended", False, f"the run is {summary.status.words}", fix)
    if summary.status.is_complete:
        return Check("ended", True, f"the run is {summary.status.words}")
    reason = f" ({shorten(summary.reason, 120).rstrip('.')})" if summary.reason else ""
    sentence = f"the run {summary.status.words}{reason}"
    return Check("ended", False, sentence, f"continue the run with harness resume {summary.id}", True)


def _control(spec: AttackSpec) -> Check:
    if not spec.attack.control:
        return Check("control", True, f"{spec.attack.name} is an attack")
    name = display_name(spec.attack.name, is_control=True)
    return Check("control", False, f"{name} is a control and may not be submitted", "package a run of an attack")


def _round_with_all_rules(spec: AttackSpec) -> Round:
    """Return the round with the rules that the record leaves out, as its file says now."""
    try:
        return load_round(str(spec.round.source))
    except HarnessError:
        return spec.round  # The check of the inputs names the file.


def _round(spec: AttackSpec, round_: Round) -> Check:
    if spec.round.fold is None:
        dates = {"code by": round_.code_deadline, "closes": round_.closes}
        texts = [f", {label} {moment_text(at)}" for label, at in dates.items() if at is not None]
        return Check("round", True, f"the round is {spec.round.name}{''.join(texts)}")
    sentence = f"{spec.round.name} is a fold of training rows, not a round that takes submissions"
    return Check("round", False, sentence, "run the attack on the round itself")


def _partial(spec: AttackSpec) -> Check:
    if not spec.is_partial:
        return Check("partial", True, f"the run is on all {spec.round_examples:,} examples")
    sentence = f"--limit left out {spec.round_examples - spec.examples:,} of {spec.round_examples:,} examples"
    return Check("partial", False, sentence, "run the attack without --limit", True)


def _budget(spec: AttackSpec, summary: RunSummary) -> Check:
    spent, allowed = format_duration(summary.elapsed_s), format_duration(spec.round.budget)
    if spec.budget <= spec.round.budget or summary.elapsed_s <= spec.round.budget:
        return Check("budget", True, f"the run spent {spent} of the round's {allowed}")
    sentence = f"the run spent {spent}, its budget of {format_duration(spec.budget)} exceeds the round's {allowed}"
    return Check("budget", False, sentence, "run the attack within the round's budget", True)


def _target(spec: AttackSpec) -> Check:
    if spec.target is None:
        return Check("target", True, "the attack does not use a target")
    used, expected = _last_part(spec.target.id), _last_part(spec.round.target)
    if spec.target.id == spec.round.target:
        return Check("target", True, f"the target is the round's, {used}")
    return Check("target", False, f"the target was {used}, the round's is {expected}", "run without --target", True)


def _models(spec: AttackSpec, round_: Round) -> Check:
    models = {
        name: [file.name for file in files_in(record.path) if is_model_file(file.name)]
        for name, record in spec.paths.items()
    }
    paths = [str(record.path) for name, record in spec.paths.items() if models[name]]
    if (forbidden := round_.forbidden_model([*other_models(spec), *paths])) is not None:
        sentence = f"the round forbids the model {shorten(_last_part(forbidden))}"
        return Check("models", False, sentence, "run the attack without it")
    reference = "" if spec.reference is None else f", and the reference model is {_last_part(spec.reference.id)}"
    if spec.attack.models:
        return Check("models", True, f"the attack declares the models {', '.join(spec.attack.models)}{reference}")
    for name, files in models.items():
        if files:
            sentence = f"the parameter {name} contains a model ({shorten(files[0])}) that the attack does not declare"
            return Check("models", False, sentence, "name the model in the class attribute `models`", True)
    return Check("models", True, f"no parameter contains another model{reference}")


def _preprefixes(spec: AttackSpec) -> Check:
    preprefixes = spec.data_sha256.get(str(spec.round.preprefix_file))
    for name, record in spec.paths.items():
        if preprefixes is not None and any(file_sha256(path) == preprefixes for path in files_in(record.path)):
            sentence = f"the parameter {name} contains the pre-prefixes"
            return Check("preprefixes", False, sentence, "remove the parameter: attacks may use prefixes only", True)
    is_one_file = spec.round.train_prefix_file == spec.round.prefix_file
    if is_one_file and not _are_disjoint(spec.round.answer_rows, spec.round.train_rows):
        sentence = "the training rows contain attacked examples with their pre-prefixes"
        return Check("preprefixes", False, sentence, "use a round whose train_rows exclude its answer_rows", True)
    return Check("preprefixes", True, "the attack had no access to the pre-prefixes of attacked examples")


def _are_disjoint(attacked: tuple[int, int] | None, trained: tuple[int, int] | None) -> bool:
    return attacked is not None and trained is not None and (attacked[1] <= trained[0] or trained[1] <= attacked[0])


def _sandbox(folder: RunFolder) -> Check:
    backends = []
    # A run that is about to start has no store yet.
    if folder.store.exists():
        with RunReader(folder.store) as reader:
            backends = [detail.get("sandbox") for _, _, name, detail in reader.events() if name == "worker"]
    if backends and all(backend_named(str(name)).is_sandbox for name in backends):
        return Check("sandbox", True, f"the attack ran in a sandbox ({backends[-1]})")
    sentence = "the attack ran without a sandbox, so its file accesses are unknown" if backends else "no worker started"
    return Check("sandbox", False, sentence, "set up a sandbox as harness doctor describes, and run it again", True)


def _inputs(folder: RunFolder, spec: AttackSpec) -> Check:
    # Weights are not packaged. Whoever runs the code hashes their own copy.
    weights = [model.weights_sha256 for model in spec.targets]
    changed = changed_inputs(folder, spec, weights)
    # The bundle pins the versions that are installed now.
    now = versions()
    changed += [f"{name} is {now.get(name)}, was {was}" for name, was in spec.versions.items() if now.get(name) != was]
    if not changed:
        return Check("inputs", True, "code, round, data, paths and versions are as recorded")
    sentence = f"changed since the run started: {', '.join(changed)}"
    return Check("inputs", False, sentence, "restore them, or run the attack again")


def _team(path: Path | None) -> Check:
    if path is None:
        fix = "write team.toml with [[members]] and a `name` for each, or name a file with --team"
        return Check("team", False, "no team file", fix)
    try:
        team = load_team(path)
    except HarnessError as error:
        return Check("team", False, str(error).rstrip("."), "correct the file")
    return Check("team", True, f"the team is {shorten(team.title)}")


def _description(path: Path | None) -> Check:
    fix = "describe in Markdown what is new about the attack, in description.md or the file of --description"
    if path is None:
        return Check("description", False, "no description", fix)
    try:
        sentence, is_short = description_length(path)
    except HarnessError as error:
        return Check("description", False, str(error).rstrip("."), fix)
    return Check("description", True, sentence, is_note=is_short)


def _last_part(target: str) -> str:
    return Path(target).name if target.startswith("/") else target
