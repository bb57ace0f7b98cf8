"""Verify a bundle: unpack it, run its code in a sandbox within the budget, and compare the submissions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Floats, Tokens, token_rows
from harness.core.clusters import cluster_ids
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_clusters, load_prefixes
from harness.core.files import file_sha256
from harness.core.rounds import Round
from harness.core.submission_reader import Submission, read_submission
from harness.core.text import shorten
from harness.core.times import format_duration
from harness.runs.machine import hardware, versions
from harness.sandbox import detect_backend
from harness.sandbox.refusals import Refusal
from harness.submit.bundle_checks import (
    check_code,
    check_documents,
    compare_with_frozen,
    error_in_bundle,
    open_bundle,
)
from harness.submit.code_folder import README
from harness.submit.code_spec import CodeSpec
from harness.submit.differences import CodeDifference, Likeness, compare_submissions
from harness.submit.environment import CodeEnvironment, InstallOptions, create_environment
from harness.submit.execution import CodeResult, run_code
from harness.submit.judging import JudgingData
from harness.submit.manifest import Manifest, TargetIdentity
from harness.submit.prefixes import read_prefixes, tokens_sha256
from harness.submit.rerun import read_scores
from harness.submit.verdict import CheckFailed, FindingLog, Outcome, Verdict

_DEFAULT_BUDGET_SECONDS = 86400.0
OnStep = Callable[[str], None]
"""Called with a description of the current step."""


@dataclass(frozen=True)
class LocalTarget:
    """The verifier's own copy of the target: its folder and the hash of its weights."""

    path: Path
    weights_sha256: str


@dataclass(frozen=True)
class OrganizerInputs:
    """The inputs that the organizers choose and the bundle must not.

    Either `round`, which gives prefixes, answers and rules, or the files `prefixes` and, if known, `answers`. `budget`
    is in seconds; None means the round's budget, or a day. `find_target` returns the verifier's copy of a target.
    """

    find_target: Callable[[TargetIdentity], LocalTarget]
    round: Round | None = None
    prefixes: Path | None = None
    answers: Path | None = None
    budget: float | None = None


@dataclass(frozen=True)
class RunSettings:
    """How the code runs. `work` is an empty folder; `device` None means the bundle's device."""

    work: Path
    install: InstallOptions
    device: str | None = None
    may_run_without_sandbox: bool = False
    on_step: OnStep = field(default=lambda step: None)


class Verification:
    """The verification of one bundle."""

    def __init__(self, bundle: Path, *, work: Path, frozen: Path | None = None) -> None:
        self._bundle = bundle
        self._frozen = frozen
        self._folder = work / "bundle"
        self._log = FindingLog()
        self._report: dict[str, Any] = {"bundle_sha256": file_sha256(bundle)}
        self._manifest: Manifest | None = None
        self._difference: CodeDifference | None = None
        self.produced: Path | None = None

    def compare_code(self) -> Verdict:
        """Check the manifest and compare the code with the frozen code, without running anything.

        Raises HarnessError if the frozen code cannot be read.
        """
        try:
            self._open()
        except CheckFailed:
            return self._refusal()
        assert self._difference is not None, "compare_code() needs frozen code"
        outcome = Outcome.SAME_CODE if self._difference.is_same else Outcome.OTHER_CODE
        return self._verdict(outcome, self._difference.summary)

    def run(self, inputs: OrganizerInputs, settings: RunSettings) -> Verdict:
        """Run the code on the prefixes and compare the submission that it produces with the submitted one.

        Raises HarnessError if the organizers' inputs cannot be read or do not fit the bundle, or if this machine
        cannot run the code. Neither is a verdict on the bundle.
        """
        try:
            manifest = self._open()
            if manifest.kind == "submission":
                check_documents(self._folder, self._log)
            spec, rules = check_code(self._folder, manifest, inputs.round, self._log)
            judging = _judging_data(inputs, rules)
            submitted = self._read_submitted(manifest, judging)
            target = self._check_target(spec, inputs)
            self._require_sandbox(settings)
            environment = self._create_environment(spec, settings)
            budget = _DEFAULT_BUDGET_SECONDS if inputs.round is None else inputs.round.budget
            budget = budget if inputs.budget is None else inputs.budget
            result = self._run_code(judging.prefixes, settings, environment, target=target, budget=budget)
            produced = self._read_produced(result, judging)
        except CheckFailed:
            return self._refusal()
        self._score("produced", produced, judging)
        if submitted is None:
            return self._verdict(Outcome.RAN, f"the code ran on {len(judging.prefixes):,} prefixes within its budget")
        self._score("submitted", submitted, judging)
        reasons = _nondeterminism_reasons(manifest, spec, environment, settings)
        return self._compare(submitted, produced, result, reasons)

    def _open(self) -> Manifest:
        self._manifest = manifest = open_bundle(self._bundle, self._folder, self._log)
        if self._frozen is not None:
            work = self._folder.parent / "frozen"
            self._difference = compare_with_frozen(self._folder, self._frozen, manifest, work, self._log)
            self._report["code_changes"] = self._difference.changes
        return manifest

    def _read_submitted(self, manifest: Manifest, judging: JudgingData) -> Submission | None:
        if manifest.kind == "code":
            return None
        self._log.check(
            "prefixes",
            manifest.prefixes_sha256 == tokens_sha256(judging.prefixes, judging.round.vocabulary),
            f"the submission is for these {len(judging.prefixes):,} prefixes",
            "the submission was made for other prefixes",
        )
        try:
            submitted = read_submission(self._folder / "submission.csv", judging.submission_rules)
        except HarnessError as error:
            self._log.fail("submission", error_in_bundle(error, self._folder))
        self._log.record("submission", f"{len(submitted.ids):,} rows follow the round's rules")
        return submitted

    def _check_target(self, spec: CodeSpec, inputs: OrganizerInputs) -> LocalTarget | None:
        if spec.target is None:
            self._log.note("target", "the attack does not use a target")
            return None
        target = inputs.find_target(spec.target.identity)
        expected = f"{spec.target.id}, weights {spec.target.weights_sha256[:12]}…"
        self._log.check(
            "target",
            target.weights_sha256 == spec.target.weights_sha256,
            f"the target is {expected}",
            f"the bundle names {expected}, but the weights here hash to {target.weights_sha256[:12]}…",
        )
        return target

    def _require_sandbox(self, settings: RunSettings) -> None:
        backend = detect_backend()
        self._report["sandbox"] = backend.name
        if backend.is_sandbox:
            self._log.record("sandbox", f"{backend.name}: {backend.description}")
        elif settings.may_run_without_sandbox:
            self._log.note("sandbox", "none: the code had all rights of the user who ran it")
        else:
            raise HarnessError("this machine has no sandbox for untrusted code. --unsafe runs the code without one.")

    def _create_environment(self, spec: CodeSpec, settings: RunSettings) -> CodeEnvironment:
        code = self._folder / "code"
        try:
            environment = create_environment(code, spec, settings.install, settings.work, settings.on_step)
        except HarnessError as error:
            if settings.install.use_own and any(code.glob("*.whl")):
                raise  # The verifier's versions differ, which is no fault of the bundle.
            self._log.fail("environment", str(error).rstrip("."))
        self._log.record("environment", environment.summary)
        return environment

    def _run_code(
        self,
        prefixes: Tokens,
        settings: RunSettings,
        environment: CodeEnvironment,
        *,
        target: LocalTarget | None,
        budget: float,
    ) -> CodeResult:
        settings.on_step(f"running the code, within {format_duration(budget)}")
        # README.md may differ from the frozen code's, so the code must not be able to read it.
        (self._folder / "code" / README).unlink(missing_ok=True)
        result = run_code(
            self._folder / "code",
            prefixes,
            environment.python,
            readable=environment.readable,
            variables=environment.variables | ({} if settings.device is None else {"HARNESS_DEVICE": settings.device}),
            work=settings.work,
            target=None if target is None else target.path,
            budget=budget + _startup_allowance(budget),
            on_line=settings.on_step,
        )
        step = result.step
        self._report |= {"elapsed_s": round(step.seconds, 3), "budget_s": budget}
        for refusal, count in step.refusals.items():
            sentence = f"the sandbox refused the code {refusal.words} ({count:,} times)"
            if refusal is Refusal.NETWORK:
                self._log.fail("network", f"{sentence}; attacks must not use the network")
            self._log.note("sandbox", sentence)
        self._log.check(
            "budget",
            not step.is_out_of_time,
            f"the code took {format_duration(step.seconds)} of {format_duration(budget)}, including startup",
            f"the code was ended after {format_duration(budget)} plus "
            f"{format_duration(_startup_allowance(budget))} for startup",
        )
        failure = f"the code failed: {step.ending}"
        if step.last_line:
            failure += f" ({shorten(step.last_line, 300)})"
        # Exit code 3: the run ended at its budget, and what it had written by then counts.
        self._log.check("run", step.code in (0, 3), f"the code exited with code {step.code}", failure)
        return result

    def _read_produced(self, result: CodeResult, judging: JudgingData) -> Submission:
        try:
            if result.out.is_symlink() or not result.out.is_file():
                raise HarnessError("out.csv is missing or not a regular file.")
            produced = read_submission(result.out, judging.submission_rules)
        except HarnessError as error:
            reason = error_in_bundle(error, result.out.parent)
            self._log.fail("produced", f"the code did not write a valid submission: {reason}")
        self.produced = result.out
        self._report["produced_sha256"] = file_sha256(result.out)
        return produced

    def _score(self, name: str, submission: Submission, judging: JudgingData) -> None:
        if (judged := judging.judge(submission)) is None:
            return
        _, scored = judged
        self._report.setdefault("scores", {})[name] = scored.as_json()
        low, high, unit = scored.interval
        sentence = f"Recall@{scored.cap:,} {scored.recall_at_cap:.3f} [{low:.3f}, {high:.3f}] by {unit}"
        self._log.note(f"score, {name}", sentence)

    def _compare(self, submitted: Submission, produced: Submission, result: CodeResult, reasons: list[str]) -> Verdict:
        """Return the verdict. `reasons` are those why a difference is allowed."""
        agreement = compare_submissions(submitted, produced, _read_scores(result, len(produced.ids)))
        self._report["agreement"] = agreement
        if agreement.likeness is Likeness.IDENTICAL:
            is_same = file_sha256(result.out) == file_sha256(self._folder / "submission.csv")
            words = "byte for byte" if is_same else "row for row"
            self._log.record("agreement", f"{agreement.summary}, {words}")
            return self._verdict(Outcome.REPRODUCED, f"the code produces the submission, {words}")
        recalls = [score["recall_at_cap"] for score in self._report.get("scores", {}).values()]
        sentence = agreement.summary
        if recalls:
            sentence += f"; recall {recalls[1]:.3f} submitted, {recalls[0]:.3f} produced"
        # The code itself claims which rows are ties, so ties must not change the submission's score.
        if agreement.likeness is Likeness.TIES and len(set(recalls)) < 2:
            self._log.record("agreement", sentence)
            return self._verdict(Outcome.REPRODUCED_UP_TO_TIES, sentence)
        if not reasons:
            try:
                self._log.fail("agreement", f"the code does not produce the submission: {sentence}")
            except CheckFailed:
                return self._refusal()
        self._log.note("agreement", sentence)
        self._log.note("promise", f"a byte-identical result was not promised: {'; '.join(reasons)}")
        return self._verdict(Outcome.MEASURED, sentence)

    def _refusal(self) -> Verdict:
        return self._verdict(Outcome.REFUSED, self._log.findings[-1].sentence)

    def _verdict(self, outcome: Outcome, sentence: str) -> Verdict:
        manifest, difference = self._manifest, self._difference
        did_run = outcome not in (Outcome.SAME_CODE, Outcome.OTHER_CODE, Outcome.REFUSED)
        if did_run and difference is not None and not difference.is_same:
            sentence += f"; {difference.summary}"
        return Verdict(
            bundle=self._bundle.name,
            kind="unknown" if manifest is None else manifest.kind,
            attack="unknown" if manifest is None else manifest.attack,
            round="unknown" if manifest is None else manifest.round,
            outcome=outcome,
            sentence=sentence,
            findings=self._log.findings,
            hardware=hardware(),
            versions=versions(),
            **self._report,
        )


def _judging_data(inputs: OrganizerInputs, rules: Round) -> JudgingData:
    """Load prefixes, answers and clusters from the round or the files that the organizers named."""
    if inputs.round is not None:
        prefixes, answers = load_prefixes(inputs.round), load_answers(inputs.round)
        return JudgingData(rules, prefixes, answers, None if answers is None else load_clusters(inputs.round))
    assert inputs.prefixes is not None, "OrganizerInputs needs a round or prefixes"
    prefixes = read_prefixes(inputs.prefixes, length=rules.prefix_length, vocabulary=rules.vocabulary)
    if inputs.answers is None:
        return JudgingData(rules, prefixes, None, None)
    answers = token_rows(inputs.answers, length=rules.suffix_length, vocabulary=rules.vocabulary)
    if len(answers) != len(prefixes):
        raise HarnessError(f"{inputs.answers}: {len(answers):,} answers for {len(prefixes):,} prefixes.")
    whole_rows = np.concatenate([prefixes, answers], axis=1)
    return JudgingData(rules, prefixes, answers, None if rules.clusters == "none" else cluster_ids([whole_rows]))


def _startup_allowance(budget: float) -> float:
    """Return the seconds allowed for starting Python and hashing the weights, which a run's budget does not include."""
    return min(60.0, max(5.0, budget / 20))


def _read_scores(result: CodeResult, rows: int) -> Floats | None:
    """Return the scores that the code wrote next to its submission, or None if they are missing or not valid."""
    path = result.out.parent / "scores.csv"
    try:
        return None if path.is_symlink() else read_scores(path, rows)[1]
    except HarnessError:
        return None  # Scores only decide whether rows that moved are ties.


def _nondeterminism_reasons(
    manifest: Manifest, spec: CodeSpec, environment: CodeEnvironment, settings: RunSettings
) -> list[str]:
    """Return the reasons why the produced bytes may differ from the submitted ones."""
    run, local = manifest.run, hardware()
    if run is None:
        return []
    reasons = list(run.unpromised)
    for name in ("processor", "gpus"):
        if run.hardware.get(name) != local[name]:
            reasons.append(f"the {name.removesuffix('s')} differs from the run's")
    for name, version in (("python", versions()["python"]), ("torch", environment.torch)):
        if version != run.versions.get(name):
            reasons.append(f"{name} is {version}, the run used {run.versions.get(name)}")
    if settings.device is not None and spec.target is not None and settings.device != spec.target.device:
        reasons.append(f"the device is {settings.device}, the run used {spec.target.device}")
    return reasons
