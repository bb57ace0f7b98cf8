"""The stored record of an audit: its summary and its inputs. Its findings are computed by `harness.audits`."""

from collections.abc import Sequence

from harness.core.audit import FIGURES
from harness.core.inputs import content_sha256
from harness.core.text import sanitize
from harness.jobs.audit.reader import AuditReader
from harness.jobs.audit.spec import AuditSpec
from harness.runs.folder import RunFolder
from harness.runs.job_record import Counts, JobRecord, Labels
from harness.runs.reader import RunReader


class AuditRecord(JobRecord[AuditSpec]):
    """The record of one audit."""

    show_command = "harness audit show"
    screen = "figures"

    def labels(self, spec: AuditSpec) -> Labels:
        return Labels(attack=f"audit {spec.audit}", round=spec.subject)

    def counts(self, reader: RunReader, spec: AuditSpec) -> Counts:
        names = [name for name, table in spec.stored_tables.items() if table.name != FIGURES.name]
        with AuditReader(reader.path) as audit:
            figures = {figure.name: figure.value for figure in audit.newest_figures()}
        return Counts(sum(map(reader.row_count, names)), figures)

    def write_results(self, folder: RunFolder, spec: AuditSpec) -> None:
        """Write nothing: findings are computed from the record when they are asked for."""

    def changed_inputs(self, folder: RunFolder, spec: AuditSpec, weights_sha256: Sequence[str | None]) -> list[str]:
        changed = []
        if not folder.inputs.is_dir() or content_sha256(folder.inputs) != spec.inputs_sha256:
            changed.append(f"its inputs in {folder.inputs}")
        for model, current in zip(spec.models, weights_sha256, strict=True):
            if current != model.weights_sha256:
                changed.append(f"the {model.hashed} of {model.id}")
        return changed

    def describe(self, folder: RunFolder, spec: AuditSpec) -> list[tuple[str, str]]:
        rows = [("audit", spec.audit), ("subject", sanitize(spec.subject))]
        rows += [
            ("model", f"{sanitize(model.id)}, {model.hashed} {model.weights_sha256[:12]}") for model in spec.models
        ]
        if form := spec.params.get("form"):
            rows.append(("endpoint", f"prompts as {form['prompt']}, log-probabilities by {form['field']}"))
        rows += [(name, sanitize(str(record.path))) for name, record in spec.paths.items()]
        if folder.store.exists():
            with AuditReader(folder.store) as reader:
                rows += [("figure", sanitize(figure.text)) for figure in reader.newest_figures()]
        return rows


RECORD = AuditRecord()
