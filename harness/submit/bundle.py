"""Build the zip for the organizers: from a run, or from an attack before its run."""

import hashlib
import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.arrays import tokens_sha256
from harness.core.examples import load_prefixes, load_training
from harness.core.rounds import FILE_FIELDS
from harness.core.submission import submission_bytes
from harness.core.version import __version__
from harness.runs.attack_record import scorecard_of, submission_now
from harness.runs.facts import read_record
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.specs import AttackSpec
from harness.runs.summary import run_summary
from harness.submit.archive import archive_bytes
from harness.submit.checklist import Check, uses_training_rows
from harness.submit.code_folder import README, CodeSource, code_files, rendered
from harness.submit.code_spec import code_spec_from_run
from harness.submit.manifest import MANIFEST, SUBMISSION, AcceptedCheck, Manifest, RunRecord, hashes_of
from harness.submit.team import load_team
from harness.submit.wheel import harness_wheel


@dataclass(frozen=True)
class Bundle:
    """The bytes of a zip and its manifest. `pages` is the length of the description, 0 for code alone."""

    content: bytes
    manifest: Manifest
    pages: int = 0

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def code_bundle(spec: AttackSpec, source: bytes) -> Bundle:
    """Package the code of an attack before its run, as planned in `spec`. Raises HarnessError as `code_files` does."""
    return _zip_of_code(spec, code_files(_code_source(spec, source)))


def submission_bundle(folder: RunFolder, *, team: Path, description: Path, unmet: list[Check], redact: bool) -> Bundle:
    """Package a run's submission with its code, description and team. `unmet` lists the failed checks accepted.

    The same run, team and description give the same bytes. Raises HarnessError if the description is too long, and as
    `code_files` does.
    """
    spec = folder.attack_spec()
    source = _code_source(spec, (folder.code / spec.attack.file).read_bytes())
    prefixes = load_prefixes(spec.round)
    run = _run_record(folder, spec)
    code = code_files(source)
    frozen = _zip_of_code(spec, code)
    code[README] = rendered(README, source.spec, source.round, wheel=harness_wheel()[0], run=run)
    files = _in_code_folder(code)
    submission = submission_now(folder)
    files[SUBMISSION] = submission_bytes(submission.ids, submission.suffixes)
    if not spec.round.is_blind:
        files["scorecard.json"] = (json.dumps(scorecard_of(spec, submission), indent=2) + "\n").encode()
    files["team.toml"] = team.read_bytes()
    documents, pages = _description_files(folder, team, description, redact=redact)
    files |= documents
    return _bundle(
        spec,
        files,
        pages=pages,
        data_fields=FILE_FIELDS,
        kind="submission",
        prefixes_sha256=tokens_sha256(prefixes, spec.round.vocabulary),
        code_bundle_sha256=frozen.sha256,
        run=run,
        marks=[AcceptedCheck(check=check.name, sentence=check.sentence) for check in unmet],
    )


def _code_source(spec: AttackSpec, source: bytes) -> CodeSource:
    training = load_training(spec.round) if uses_training_rows(source) else None
    return CodeSource(
        spec=code_spec_from_run(spec, trains=training is not None),
        round=spec.round,
        source=source,
        training=training,
        paths={name: record.path for name, record in spec.paths.items()},
    )


def _zip_of_code(spec: AttackSpec, code: dict[str, bytes]) -> Bundle:
    # The attacked rows are unknown when code is packaged before its run.
    data_fields = [field for field in FILE_FIELDS if field.startswith("train_")]
    return _bundle(spec, _in_code_folder(code), data_fields=data_fields, kind="code")


def _in_code_folder(code: dict[str, bytes]) -> dict[str, bytes]:
    return {f"code/{name}": content for name, content in code.items()}


def _bundle(
    spec: AttackSpec, files: dict[str, bytes], *, data_fields: Iterable[str], pages: int = 0, **fields: Any
) -> Bundle:
    """Return the zip of `files` and a manifest with these `fields`. `data_fields` are the round's files to record."""
    data = {field: spec.data_sha256.get(str(getattr(spec.round, field))) for field in data_fields}
    manifest = Manifest(
        harness=__version__,
        data_sha256={field: sha256 for field, sha256 in data.items() if sha256 is not None},
        files=hashes_of(files),
        **fields,
    )
    return Bundle(archive_bytes(files | {MANIFEST: manifest.json_bytes()}), manifest, pages)


def _run_record(folder: RunFolder, spec: AttackSpec) -> RunRecord:
    summary = run_summary(folder)
    with RunReader(folder.store) as reader:
        batch_sizes = spec.batch_sizes | reader.batch_sizes()
    return RunRecord(
        id=spec.id,
        status=summary.status,
        reason=summary.reason,
        spent_s=summary.elapsed_s,
        budget_s=spec.budget,
        examples=spec.examples,
        sandbox=summary.sandbox,
        hardware=spec.hardware,
        versions=spec.versions,
        unpromised=list(read_record(folder).nondeterminism),
        batch_sizes=batch_sizes,
    )


def _description_files(
    folder: RunFolder, team: Path, description: Path, *, redact: bool
) -> tuple[dict[str, bytes], int]:
    """Return description.pdf with its sources in description/, and the number of pages."""
    # Imported here because packaging code alone needs neither Typst nor figures.
    from harness.submit.description import write_description
    from harness.submit.run_facts import run_facts

    with tempfile.TemporaryDirectory(prefix="harness-package-") as name:
        work = Path(name)
        pages = write_description(
            run_facts(folder), load_team(team), description.read_text(encoding="utf-8"), work, redact=redact
        )
        files = {path.relative_to(work).as_posix(): path.read_bytes() for path in work.rglob("*") if path.is_file()}
    pdf = files.pop("description.pdf")
    return {"description.pdf": pdf} | {f"description/{name}": content for name, content in files.items()}, pages
