"""A bundle made to prove itself: opened, its code run in a sandbox under the clock, its submission compared."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.arrays import Floats, Tokens
from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.rounds import Round
from harness.core.scoring import correct_rows, score_rows
from harness.core.submission_reader import Submission, SubmissionRules, read_submission
from harness.core.text import shorten
from harness.core.times import format_duration
from harness.runs.machine import hardware, versions
from harness.sandbox import detect_backend
from harness.sandbox.refusals import Refusal
from harness.submit.agreement import Likeness, agreement
from harness.submit.code import README
from harness.submit.code_spec import CodeSpec
from harness.submit.environment import Environment, Install, made_environment
from harness.submit.execution import Executed, executed_code
from harness.submit.findings import Findings, Refused
from harness.submit.frozen import CodeDifference
from harness.submit.given import FoundTarget, Given, Known, known_from
from harness.submit.manifest import Manifest
from harness.submit.opening import difference_from_frozen, in_bundle, look_at_papers, opened, read_code
from harness.submit.prefixes import tokens_sha256
from harness.submit.rerun import read_scores
from harness.submit.verdict import Outcome, Verdict

_DEFAULT_BUDGET_SECONDS = 86400.0
OnStep = Callable[[str], None]
"""Called with what is being done now."""


@dataclass(frozen=True)
class How:
    """How the code is run: its environment, on which device (None: the bundle's), and whether it may run without a
    sandbox. `work` is an empty folder."""

    work: Path
    install: Install
    device: str | None = None
    may_be_unconfined: bool = False
    on_step: OnStep = field(default=lambda step: None)


class Verification:
    """One bundle, from its zip to its verdict."""

    def __init__(self, bundle: Path, *, work: Path, frozen: Path | None = None) -> None:
        self._bundle = bundle
        self._frozen = frozen
        self._folder = work / "bundle"
        self._findings = Findings()
        self._told: dict[str, Any] = {"bundle_sha256": file_sha256(bundle)}
        self._manifest: Manifest | None = None
        self._difference: CodeDifference | None = None
        self.produced: Path | None = None

    def static(self) -> Verdict:
        """The verdict without running anything: the manifest, and the code against the frozen code.

        Raises HarnessError when the frozen code cannot be read.
        """
        try:
            self._open()
        except Refused:
            return self._verdict(Outcome.REFUSED, self._findings.last)
        assert self._difference is not None  # asked for without frozen code, nothing would be compared
        outcome = Outcome.SAME_CODE if self._difference.is_same else Outcome.OTHER_CODE
        return self._verdict(outcome, self._difference.in_words)

    def whole(self, given: Given, how: How) -> Verdict:
        """The verdict after the code has run on the prefixes.

        Raises HarnessError when what is given cannot be read or does not fit the bundle's lengths, and when this
        machine is not fit to run it: none of that is a verdict on the bundle.
        """
        try:
            manifest = self._open()
            if manifest.kind == "submission":
                look_at_papers(self._folder, self._findings)
            spec, rules = read_code(self._folder, manifest, given.round, self._findings)
            known = known_from(given, rules)
            submitted = self._read_submitted(manifest, known, rules)
            target = self._found_target(spec, given)
            self._require_sandbox(how)
            environment = self._environment(spec, how)
            budget = _DEFAULT_BUDGET_SECONDS if given.round is None else given.round.budget
            budget = budget if given.budget is None else given.budget
            executed = self._execute(known.prefixes, how, environment, target=target, budget=budget)
            produced = self._read_produced(executed, known, rules)
        except Refused:
            return self._verdict(Outcome.REFUSED, self._findings.last)
        self._score("produced", produced, known, rules)
        if submitted is None:
            return self._verdict(Outcome.RAN, f"the code ran on {len(known.prefixes):,} prefixes within its budget")
        self._score("submitted", submitted, known, rules)
        unpromised = _not_promised(manifest, spec, environment, how)
        return self._compared(submitted, produced, executed, unpromised)

    def _open(self) -> Manifest:
        self._manifest = manifest = opened(self._bundle, self._folder, self._findings)
        if self._frozen is not None:
            place = self._folder.parent / "frozen"
            self._difference = difference_from_frozen(self._folder, self._frozen, manifest, place, self._findings)
            self._told["code_changes"] = self._difference.changes
        return manifest

    def _read_submitted(self, manifest: Manifest, known: Known, rules: Round) -> Submission | None:
        if manifest.kind == "code":
            return None
        self._findings.check(
            "prefixes",
            manifest.prefixes_sha256 == tokens_sha256(known.prefixes, rules.vocabulary),
            f"the submission is for these {len(known.prefixes):,} prefixes",
            "the submission was made for other prefixes",
        )
        try:
            submitted = read_submission(self._folder / "submission.csv", _rules_of(rules, known))
        except HarnessError as error:
            self._findings.fail("submission", in_bundle(error, self._folder))
        self._findings.check("submission", True, f"{len(submitted.ids):,} rows keep the round's rules", "")
        return submitted

    def _found_target(self, spec: CodeSpec, given: Given) -> FoundTarget | None:
        if spec.target is None:
            self._findings.tell("target", "the attack asks no model")
            return None
        found = given.find_target(spec.target.named)
        named = f"{spec.target.id}, weights {spec.target.weights_sha256[:12]}…"
        self._findings.check(
            "target",
            found.weights_sha256 == spec.target.weights_sha256,
            f"the target is {named}",
            f"the bundle names {named}, and the model here hashes to {found.weights_sha256[:12]}…",
        )
        return found

    def _require_sandbox(self, how: How) -> None:
        backend = detect_backend()
        self._told["sandbox"] = backend.name
        if backend.is_sandbox:
            self._findings.check("sandbox", True, f"{backend.name}: {backend.promise}", "")
        elif how.may_be_unconfined:
            self._findings.tell("sandbox", "none: the code could read and do whatever its user can")
        else:
            raise HarnessError(
                "this machine offers no sandbox, and a stranger's code is not run without; --unsafe runs it."
            )

    def _environment(self, spec: CodeSpec, how: How) -> Environment:
        try:
            environment = made_environment(self._folder / "code", spec, how.install, how.work, how.on_step)
        except HarnessError as error:
            if how.install.is_own and any((self._folder / "code").glob("*.whl")):
                raise  # which versions the verifier has says nothing of the bundle
            self._findings.fail("environment", str(error).rstrip("."))
        self._findings.check("environment", True, environment.in_words, "")
        return environment

    def _execute(
        self, prefixes: Tokens, how: How, environment: Environment, *, target: FoundTarget | None, budget: float
    ) -> Executed:
        how.on_step(f"running it, within {format_duration(budget)}")
        # It may differ from the frozen code's, so nothing in it may tell the code anything.
        (self._folder / "code" / README).unlink(missing_ok=True)
        executed = executed_code(
            self._folder / "code",
            prefixes,
            environment.python,
            readable=environment.readable,
            variables=environment.variables | ({} if how.device is None else {"HARNESS_DEVICE": how.device}),
            work=how.work,
            target=None if target is None else target.path,
            budget=budget + _starting(budget),
            on_line=how.on_step,
        )
        step = executed.step
        self._told |= {"seconds": round(step.seconds, 3), "budget": budget}
        for refusal, count in step.refusals.items():
            sentence = f"the sandbox refused the code {refusal.words} ({count:,} times)"
            if refusal is Refusal.NETWORK:
                self._findings.fail("network", f"{sentence}, and no attack may use the network")
            self._findings.tell("sandbox", sentence)
        self._findings.check(
            "budget",
            not step.is_out_of_time,
            f"it took {format_duration(step.seconds)} of {format_duration(budget)}, starting included",
            f"it was not done within {format_duration(budget)} and {format_duration(_starting(budget))} for starting, "
            "and was ended",
        )
        said = f" ({shorten(step.last_words, 300)})" if step.last_words else ""
        self._findings.check("run", step.code == 0, "the code ran to its end", f"the code failed: {step.ending}{said}")
        return executed

    def _read_produced(self, executed: Executed, known: Known, rules: Round) -> Submission:
        try:
            if executed.out.is_symlink() or not executed.out.is_file():
                raise HarnessError("no submission is there.")
            produced = read_submission(executed.out, _rules_of(rules, known))
        except HarnessError as error:
            words = in_bundle(error, executed.out.parent)
            self._findings.fail("produced", f"what the code wrote is no submission: {words}")
        self.produced = executed.out
        self._told["produced_sha256"] = file_sha256(executed.out)
        return produced

    def _score(self, name: str, submission: Submission, known: Known, rules: Round) -> None:
        if known.answers is None:
            return
        scored = score_rows(
            correct_rows(submission.ids, submission.suffixes, known.answers),
            submission.ids,
            cap=rules.error_cap,
            examples=len(known.answers),
            clusters=known.clusters,
        )
        self._told.setdefault("scores", {})[name] = scored.as_json()
        low, high, unit = scored.interval
        sentence = f"recall at {scored.cap:,} errors {scored.recall_at_cap:.3f} [{low:.3f}, {high:.3f}] by {unit}"
        self._findings.tell(f"score, {name}", sentence)

    def _compared(
        self, submitted: Submission, produced: Submission, executed: Executed, unpromised: list[str]
    ) -> Verdict:
        found = agreement(submitted, produced, _scores(executed, len(produced.ids)))
        self._told["agreement"] = found
        if found.likeness is Likeness.IDENTICAL:
            is_same = file_sha256(executed.out) == file_sha256(self._folder / "submission.csv")
            words = "byte for byte" if is_same else "row for row"
            self._findings.check("agreement", True, f"{found.in_words}, {words}", "")
            return self._verdict(Outcome.REPRODUCED, f"the code produces the submission, {words}")
        recalls = [score["recall_at_cap"] for score in self._told.get("scores", {}).values()]
        sentence = found.in_words
        if recalls:
            sentence += f"; recall {recalls[1]:.3f} submitted, {recalls[0]:.3f} produced"
        # Which rows are ties is the code's own word, so it may not change what the submission scores.
        if found.likeness is Likeness.TIES and len(set(recalls)) < 2:
            self._findings.check("agreement", True, sentence, "")
            return self._verdict(Outcome.REPRODUCED_UP_TO_TIES, sentence)
        if not unpromised:
            sentence = f"the code does not produce the submission: {sentence}"
            try:
                self._findings.fail("agreement", sentence)
            except Refused:
                return self._verdict(Outcome.REFUSED, sentence)
        self._findings.tell("agreement", sentence)
        self._findings.tell("promise", f"identity was not promised: {'; '.join(unpromised)}")
        return self._verdict(Outcome.MEASURED, sentence)

    def _verdict(self, outcome: Outcome, sentence: str) -> Verdict:
        manifest, difference = self._manifest, self._difference
        ran = outcome not in (Outcome.SAME_CODE, Outcome.OTHER_CODE, Outcome.REFUSED)
        if ran and difference is not None and not difference.is_same:
            sentence += f"; {difference.in_words}"
        return Verdict(
            bundle=self._bundle.name,
            kind="unknown" if manifest is None else manifest.kind,
            attack="unknown" if manifest is None else manifest.attack,
            round="unknown" if manifest is None else manifest.round,
            outcome=outcome,
            sentence=sentence,
            findings=self._findings.all(),
            hardware=hardware(),
            versions=versions(),
            **self._told,
        )


def _starting(budget: float) -> float:
    """Seconds that are allowed for what no run is charged: starting Python and hashing the target's weights."""
    return min(60.0, max(5.0, budget / 20))


def _rules_of(rules: Round, known: Known) -> SubmissionRules:
    return SubmissionRules(len(known.prefixes), rules.suffix_length, rules.vocabulary, rules.row_cap)


def _scores(executed: Executed, rows: int) -> Floats | None:
    """The scores that the code wrote beside its submission; None where there are none that fit."""
    path = executed.out.parent / "scores.csv"
    try:
        return None if path.is_symlink() else read_scores(path, rows)[1]
    except HarnessError:
        return None  # they decide only whether rows that moved were equal


def _not_promised(manifest: Manifest, spec: CodeSpec, environment: Environment, how: How) -> list[str]:
    """Why the submission's bytes may differ here from where it ran."""
    ran, here = manifest.run, hardware()
    if ran is None:
        return []
    reasons = list(ran.unpromised)
    for name in ("processor", "gpus"):
        if ran.hardware.get(name) != here[name]:
            reasons.append(f"another {name.removesuffix('s')} than it ran on")
    for name, found in (("python", versions()["python"]), ("torch", environment.torch)):
        if found != ran.versions.get(name):
            reasons.append(f"{name} {found} where it ran on {ran.versions.get(name)}")
    if how.device is not None and spec.target is not None and how.device != spec.target.device:
        reasons.append(f"on {how.device} where it ran on {spec.target.device}")
    return reasons
