"""Write an audit to a folder of tables, charts, findings and a page, completely or not at all.

The folder is also a Hugging Face data set, which README.md describes.
"""

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from harness.core.errors import HarnessError, missing_path
from harness.core.files import file_errors
from harness.core.findings import Findings, Passage
from harness.figures.charts import draw_charts
from harness.submit.audit_page import AuditHeader, audit_page, shaded_text_page
from harness.submit.dataset_card import dataset_card
from harness.submit.finding_tables import write_parquet

_FORMAT = "harness audit, 1"
_PAGE, _RECORD, _CARD = map(PurePosixPath, ("index.html", "findings.json", "README.md"))
_TABLES, _FIGURES, _TEXTS = PurePosixPath("tables"), PurePosixPath("figures"), PurePosixPath("texts")


def check_audit_folder(out: Path) -> None:
    """Raise HarnessError unless an audit may write to `out`.

    `out` must be absent, empty, or the output of an earlier audit to which no file was added.
    """
    parent = out.resolve().parent
    if not parent.is_dir():
        raise missing_path(parent, "directory")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise HarnessError(f"{parent}: permission denied. Name another directory with --out.")
    if not out.exists():
        return
    if not out.is_dir():
        raise HarnessError(f"{out}: not a directory. Name one with --out.")
    present = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_symlink() or not path.is_dir()}
    if not present:
        return
    written = _recorded_files(out / _RECORD)
    if written is None:
        raise HarnessError(f"{out}: contains files that are not from an audit. Name another directory with --out.")
    if added := sorted(present - written):
        raise HarnessError(f"{out}: {added[0]} was added to this audit. Move it away, or use another --out.")


def write_audit(out: Path, findings: Findings, header: AuditHeader) -> list[Path]:
    """Write an audit to the folder `out`, replacing an earlier audit, and return the files.

    Equal findings give equal bytes. Raises HarnessError as `check_audit_folder` does, or if the folder cannot be
    written.
    """
    check_audit_folder(out)
    findings, header = _without_directories(findings, header)
    with file_errors(out, "written"):
        folder = out.resolve()
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
            new = Path(temporary) / "new"
            new.mkdir()
            files = _write_files(new, findings, header)
            _replace_folder(new, folder, Path(temporary) / "earlier")
    return [out / file for file in files]


def _without_directories(findings: Findings, header: AuditHeader) -> tuple[Findings, AuditHeader]:
    """Return both with each model that a sentence names by its directory named by `TargetRecord.name`."""

    def rename(text: str) -> str:
        for model in header.spec.models:
            names = {str(model.path): model.base_name, str(model.paths[-1]): model.name, model.id: model.name}
            for directory, name in names.items():
                # The directory `.` is in every sentence.
                text = text.replace(directory, name) if "/" in directory else text
        return text

    summary = replace(header.summary, reason=rename(header.summary.reason))
    conclusion = findings.conclusion
    if conclusion is not None:
        question, evidence, caveat = map(rename, (conclusion.question, conclusion.evidence, conclusion.caveat))
        conclusion = replace(conclusion, question=question, evidence=evidence, caveat=caveat)
    return (
        replace(findings, sentences=[*map(rename, findings.sentences)], conclusion=conclusion),
        replace(header, warnings=[*map(rename, header.warnings)], summary=summary),
    )


def _write_files(folder: Path, findings: Findings, header: AuditHeader) -> list[PurePosixPath]:
    """Write all files to `folder`, and return their paths relative to it."""
    tables = [(table, _TABLES / f"{table.name}.parquet") for table in findings.tables]
    drawings = zip(findings.charts, draw_charts(findings.charts), strict=True)
    charts = [(chart, drawing, _FIGURES / f"{chart.name}.svg") for chart, drawing in drawings]
    texts = [(shaded.title, _TEXTS / f"{shaded.name}.html") for shaded in findings.texts]
    files = [_PAGE, _RECORD, _CARD, *(file for _, _, file in charts), *(file for _, file in [*tables, *texts])]
    for file in files:
        (folder / file).parent.mkdir(exist_ok=True)
    for table, file in tables:
        write_parquet(table, folder / file)
    contents = {file: drawing.svg for _, drawing, file in charts}
    contents |= {file: shaded_text_page(shaded) for shaded, (_, file) in zip(findings.texts, texts, strict=True)}
    contents[_PAGE] = audit_page(findings, header, charts=charts, tables=tables, texts=texts)
    contents[_CARD] = dataset_card(findings, header, tables)
    record = {
        "format": _FORMAT,
        "audit": _header_as_json(header),
        "is_redacted": findings.is_redacted,
        "conclusion": findings.conclusion and findings.conclusion.as_json(),
        "definitions": dict(findings.definitions),
        "figures": dict(findings.figures),
        "measures": findings.measures.as_json(),
        "sentences": list(findings.sentences),
        "warnings": list(header.warnings),
        "tables": [{"name": table.name, "title": table.title, "parquet": str(file)} for table, file in tables],
        "charts": [{"title": chart.title, "svg": str(file)} for chart, _, file in charts],
        "texts": [{"title": title, "page": str(file)} for title, file in texts],
        "passages": [_passage_as_json(passage) for passage in findings.passages],
        "files": sorted(map(str, files)),
    }
    contents[_RECORD] = json.dumps(record, indent=1, allow_nan=False) + "\n"
    for file, content in contents.items():
        (folder / file).write_text(content, encoding="utf-8")
    return files


def _replace_folder(new: Path, out: Path, earlier: Path) -> None:
    """Move `new` to `out`. An earlier audit there moves to `earlier`, and back if this fails."""
    if not out.exists() or not any(out.iterdir()):
        new.replace(out)
        return
    out.replace(earlier)
    try:
        new.replace(out)
    except OSError:
        earlier.replace(out)
        raise


def _recorded_files(record: Path) -> set[str] | None:
    """Return the files that an earlier audit recorded, or None if `record` is not the record of an audit."""
    try:
        content = json.loads(record.read_bytes())
        return set(map(str, content["files"])) if content["format"] == _FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _header_as_json(header: AuditHeader) -> dict[str, Any]:
    spec, summary = header.spec, header.summary
    return {
        "run": spec.id,
        "audit": spec.audit,
        "reference": header.reference,
        "status": summary.status.words,
        "reason": summary.reason,
        "created_at": spec.created_at,
        "elapsed_s": summary.elapsed_s,
        "budget_s": spec.budget,
        "models": [
            {**model.model_dump(mode="json", exclude={"path", "adapter"}), "id": model.name, "base": model.base_name}
            for model in spec.models
        ],
        "endpoint": header.endpoint or None,
        "inputs": {name: {"name": record.path.name, "sha256": record.sha256} for name, record in spec.paths.items()},
        "params": spec.params,
        "seed": spec.seed,
        "versions": spec.versions,
        "sandbox": summary.sandbox or "none yet",
    }


def _passage_as_json(passage: Passage) -> dict[str, Any]:
    texts = []
    for label, stretches in passage.texts:
        marked, position = [], 0
        for stretch in stretches:
            if stretch.is_marked and stretch.text:
                marked.append([position, position + len(stretch.text)])
            position += len(stretch.text)
        texts.append({"label": label, "text": "".join(stretch.text for stretch in stretches), "marked": marked})
    return {"title": passage.title, "marked": passage.marked.value, "texts": texts}
