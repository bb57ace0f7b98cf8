"""Verify a bundle: unpack it, run its code in a sandbox within the budget, and compare the submissions."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Floats, Tokens
from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.rounds import Round
from harness.core.submission_reader import SubmissionRows, read_submission
from harness.core.text import format_interval, format_score, shorten
from harness.core.times import format_duration, moment_text
from harness.runs.machine import hardware, versions
from harness.sandbox import detect_backend
from harness.submit import bundle_checks
from harness.submit.bundle_checks import FindModel, FrozenCode, UnpackedBundle
from harness.submit.code_folder import README
from harness.submit.code_spec import CodeSpec
from harness.submit.environment import CodeEnvironment, OtherVersionsError, create_environment
from harness.submit.execution import RunSettings, StepResult, run_step
from harness.submit.judging import JudgingData, load_judging_data
from harness.submit.manifest import SUBMISSION, Manifest
from harness.submit.rerun import SCORES, read_scores
from harness.submit.verdict import (
    CheckFailed,
    FindingLog,
    Likeness,
    Outcome,
    Verdict,
    compare_submissions,
    error_in_bundle,
)

_DEFAULT_BUDGET_SECONDS = 86400.0


@dataclass(frozen=True)
class OrganizerInputs:
    """The inputs that the organizers choose and the bundle must not."""

    find_model: FindModel
    round: Round | None = None
    """The source of prefixes, answers and rules, None with `prefixes`."""
    prefixes: Path | None = None
    """The file with the prefixes, None with `round`."""
    answers: Path | None = None
    """The file with the answers, None with `round` or if they are not known."""
    budget: float | None = None
    """Seconds; None means the round's budget, or a day."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files with prefixes and answers, which the code must not find."""
        of_round = () if self.round is None else self.round.files
        return (*of_round, *filter(None, (self.prefixes, self.answers)))


class Verification:
    """The verification of one bundle."""

    def __init__(self, bundle: Path, *, work: Path, frozen: FrozenCode | None = None) -> None:
        self._bundle = bundle
        self._frozen = frozen
        self._work = work
        self._out = work / "scratch" / "out.csv"
        self._log = FindingLog()
        self._report: dict[str, Any] = {"bundle_sha256": bundle_checks.bundle_sha256(bundle)}
        self._opened: UnpackedBundle | None = None
        self._partial = ""
        self.produced: Path | None = None

    def compare_code(self) -> Verdict:
        """Check the manifest and compare the code with the frozen code, without running anything.

        Raises HarnessError if the frozen code cannot be read.
        """
        try:
            opened = self._open()
            difference = opened.difference
            assert difference is not None, "compare_code() needs frozen code"
            if not difference.is_accepted:
                self._log.note("frozen", difference.summary)
                return self._verdict(Outcome.OTHER_CODE, difference.summary)
            bundle_checks.check_frozen(opened, self._log)
        except CheckFailed:
            return self._refusal()
        return self._verdict(Outcome.SAME_CODE, difference.summary)

    def run(self, inputs: OrganizerInputs, settings: RunSettings) -> Verdict:
        """Run the code on the prefixes and compare the submission that it produces with the submitted one.

        Raises HarnessError if the organizers' inputs cannot be read or do not fit the bundle, or if this machine
        cannot run the code. Neither is a verdict on the bundle.
        """
        try:
            opened = self._open()
            spec = opened.spec
            bundle_checks.check_frozen(opened, self._log)
            if opened.difference is None and inputs.round is not None and inputs.round.code_deadline is not None:
                deadline = moment_text(inputs.round.code_deadline)
                self._log.note("frozen", f"code was due by {deadline}, but no frozen code was given to compare with")
            if opened.manifest.kind == "submission":
                bundle_checks.check_documents(opened.folder, self._log)
            rules = bundle_checks.check_code(opened, inputs.round, self._log)
            judging = load_judging_data(rules, prefixes=inputs.prefixes, answers=inputs.answers)
            submitted = bundle_checks.read_submitted(opened, judging, self._log)
            # The examples that the run left out count as unsolved: the score is that of the whole round.
            attacked = (
                judging.prefixes if opened.manifest.run is None else judging.prefixes[: opened.manifest.run.examples]
            )
            self._partial = opened.manifest.partial_words(len(judging.prefixes))
            models = bundle_checks.check_models(spec, inputs.find_model, self._log)
            self._require_sandbox(settings)
            environment = self._create_environment(opened, settings)
            budget = inputs.budget or (_DEFAULT_BUDGET_SECONDS if inputs.round is None else inputs.round.budget)
            self._report["budget_s"] = budget
            step = self._run_code(
                opened, attacked, settings, environment, models=models, hidden=inputs.files, budget=budget
            )
            self._check_step(step, budget)
            produced = self._read_produced(judging)
            self._score("produced", produced, judging)
            if submitted is None:
                sentence = f"the code ran on {len(attacked):,} prefixes within its budget"
                return self._verdict(Outcome.RAN, sentence)
            self._score("submitted", submitted, judging)
            reasons = _nondeterminism_reasons(opened.manifest, spec, environment, settings)
            return self._compare(opened, submitted, produced, reasons)
        except CheckFailed:
            return self._refusal()

    def _open(self) -> UnpackedBundle:
        self._opened = opened = bundle_checks.open_bundle(self._bundle, self._work, self._frozen, self._log)
        if (difference := opened.difference) is not None:
            self._report["code_changes"] = difference.changes
            self._report["patch"] = difference.patch if difference.is_accepted else None
        return opened

    def _require_sandbox(self, settings: RunSettings) -> None:
        backend = detect_backend()
        self._report["sandbox"] = backend.name
        if backend.is_sandbox:
            self._log.record("sandbox", f"{backend.name}: {backend.description}")
        elif settings.may_run_without_sandbox:
            self._log.note("sandbox", "none: the code had all rights of the user who ran it")
        else:
            raise HarnessError("this machine has no sandbox for untrusted code. --unsafe runs the code without one.")

    def _create_environment(self, opened: UnpackedBundle, settings: RunSettings) -> CodeEnvironment:
        try:
            environment = create_environment(opened.folder / "code", opened.spec, settings, self._work)
        except OtherVersionsError:
            raise
        except HarnessError as error:
            self._log.fail("environment", error_in_bundle(error, opened.folder))
        self._log.record("environment", environment.summary)
        return environment

    def _run_code(
        self,
        opened: UnpackedBundle,
        prefixes: Tokens,
        settings: RunSettings,
        environment: CodeEnvironment,
        *,
        models: Mapping[str, Path],
        hidden: Iterable[Path],
        budget: float,
    ) -> StepResult:
        """Run run.sh on the prefixes. It can read itself, its environment and the models, and write to its scratch.

        `models` has the folders of the target, the reference model and the base of an adapter. The code cannot read
        the files `hidden`, even where a model's folder contains them. `budget` is in seconds.
        """
        settings.on_step(f"running the code, within {format_duration(budget)}")
        code, scratch = opened.folder / "code", self._out.parent
        # README.md may differ from the frozen code's, so the code must not be able to read it.
        (code / README).unlink(missing_ok=True)
        scratch.mkdir()
        np.save(scratch / "prefixes.npy", prefixes)
        variables = {"PYTHON": str(environment.python), "PYTHONPATH": str(environment.site)}
        variables |= _harness_variables(scratch)
        variables |= {f"HARNESS_{role.upper()}": str(folder) for role, folder in models.items()}
        if settings.device is not None:
            variables["HARNESS_DEVICE"] = settings.device
        if (run := opened.manifest.run) is not None:
            variables["HARNESS_BATCH_SIZES"] = json.dumps(run.batch_sizes)
        return run_step(
            ["bash", str(code / "run.sh"), str(scratch / "prefixes.npy"), str(self._out)],
            scratch=scratch,
            readable=(code, *environment.readable, *models.values()),
            hidden=hidden,
            variables=variables,
            seconds=budget + _startup_allowance(budget),
            network=False,
            log=self._work / "run.log",
            on_line=settings.on_line,
        )

    def _check_step(self, step: StepResult, budget: float) -> None:
        """Check the end of the code against its budget in wall seconds."""
        self._report["elapsed_s"] = round(step.seconds, 3)
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

    def _read_produced(self, judging: JudgingData) -> SubmissionRows:
        with self._log.fail_on_error("produced", self._out.parent, "the code did not write a valid submission: "):
            if self._out.is_symlink() or not self._out.is_file():
                raise HarnessError("out.csv is missing, or is a link or a directory instead of a file.")
            produced = read_submission(self._out, judging.submission_rules)
        self.produced = self._out
        self._report["produced_sha256"] = file_sha256(self._out)
        return produced

    def _score(self, name: str, submission: SubmissionRows, judging: JudgingData) -> None:
        if (judged := judging.judge(submission)) is None:
            return
        _, scored = judged
        self._report.setdefault("scores", {})[name] = scored.as_json()
        low, high, unit = scored.interval
        sentence = f"Recall@{scored.cap:,} {format_score(scored.recall_at_cap)} {format_interval(low, high)} by {unit}"
        self._log.note(f"score, {name}", sentence)

    def _compare(
        self, opened: UnpackedBundle, submitted: SubmissionRows, produced: SubmissionRows, reasons: list[str]
    ) -> Verdict:
        """Return the verdict. `reasons` are those why a difference is allowed."""
        scores = _read_scores(self._out.with_name(SCORES), len(produced.ids))
        agreement = compare_submissions(submitted, produced, scores)
        self._report["agreement"] = agreement
        if agreement.likeness is Likeness.IDENTICAL:
            is_same = self._report["produced_sha256"] == file_sha256(opened.folder / SUBMISSION)
            words = "byte for byte" if is_same else "row for row"
            self._log.record("agreement", f"{agreement.summary}, {words}")
            return self._verdict(Outcome.REPRODUCED, f"the code produces the submission, {words}")
        recalls = [score["recall_at_cap"] for score in self._report.get("scores", {}).values()]
        sentence = agreement.summary
        if recalls:
            sentence += f"; recall {format_score(recalls[1])} submitted, {format_score(recalls[0])} produced"
        # The code itself claims which rows are ties, so ties must not change the submission's score.
        if agreement.likeness is Likeness.TIES and len(set(recalls)) < 2:
            self._log.record("agreement", sentence)
            return self._verdict(Outcome.REPRODUCED_UP_TO_TIES, sentence)
        if not reasons:
            self._log.fail("agreement", f"the code does not produce the submission: {sentence}")
        self._log.note("agreement", sentence)
        self._log.note("promise", f"a byte-identical result was not promised: {'; '.join(reasons)}")
        return self._verdict(Outcome.MEASURED, sentence)

    def _refusal(self) -> Verdict:
        return self._verdict(Outcome.REFUSED, self._log.findings[-1].sentence)

    def _verdict(self, outcome: Outcome, sentence: str) -> Verdict:
        opened = self._opened
        difference = None if opened is None else opened.difference
        did_run = outcome not in (Outcome.SAME_CODE, Outcome.OTHER_CODE, Outcome.REFUSED)
        if did_run and difference is not None and not difference.is_same:
            sentence += f"; {difference.summary}"
        if did_run and self._partial:
            sentence += f"; {self._partial}"
        return Verdict(
            bundle=self._bundle.name,
            kind="unknown" if opened is None else opened.manifest.kind,
            attack="unknown" if opened is None else opened.spec.attack.name,
            round="unknown" if opened is None else opened.rules.name,
            outcome=outcome,
            sentence=sentence,
            findings=tuple(self._log.findings),
            hardware=hardware(),
            versions=versions(),
            **self._report,
        )


def _harness_variables(scratch: Path) -> dict[str, str]:
    """Return variables that keep the harness's files in `scratch`. The outer sandbox makes an inner one unnecessary."""
    homes = {"HARNESS_HOME": "state", "HARNESS_CACHE": "cache", "HARNESS_DATA": "data", "HARNESS_CONFIG": "config"}
    return {name: str(scratch / folder) for name, folder in homes.items()} | {
        "HARNESS_SANDBOX": "none",
        "HF_HUB_OFFLINE": "1",
    }


def _startup_allowance(budget: float) -> float:
    """Return the seconds allowed for starting Python and hashing the weights, which a run's budget does not include."""
    return min(60.0, max(5.0, budget / 20))


def _read_scores(path: Path, rows: int) -> Floats | None:
    """Return the scores that the code wrote next to its submission, or None if they are missing or not valid."""
    try:
        return None if path.is_symlink() else read_scores(path, rows)
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
    if settings.device is not None and spec.target is not None and settings.device != spec.target.place:
        reasons.append(f"the device is {settings.device}, the run used {spec.target.place}")
    return reasons
