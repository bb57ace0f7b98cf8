"""The text about an attack: its summary, docstring, reference and parameters, and what its runs have achieved."""

import contextlib

from harness.core.errors import HarnessError
from harness.core.paths import runs_home
from harness.core.text import format_score, pluralize, sanitize
from harness.core.times import day_and_time
from harness.plugins.discovery import AttackFile
from harness.plugins.parameters import parameters_in
from harness.plugins.schema import AttackSchema
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary
from harness.tui.overview import Overview


def results_by_round(attack: AttackFile, overview: Overview) -> str:
    """Return the best recall of the attack on each round, one per line; empty without results."""
    rounds = dict.fromkeys(run.round for run in overview.runs if run.attack == attack.name and run.has_score)
    lines = [
        f"  {sanitize(name)}: {format_score(best)}"
        for name in rounds
        if (best := overview.best_recall(attack.name, name)) is not None
    ]
    return "\n".join(["Best recall per round (runs on all examples)", *lines]) if lines else ""


def versions_used(attack: AttackFile, overview: Overview) -> str:
    """Return the versions of the source that runs used, newest first; empty without runs.

    Runs whose record cannot be read are left out.
    """
    versions: dict[str, list[RunSummary]] = {}
    for run in overview.runs:
        if run.attack == attack.name and run.has_score:
            with contextlib.suppress(HarnessError):
                digest = RunFolder(runs_home() / run.id).attack_spec().attack.sha256
                versions.setdefault(digest, []).append(run)
    lines = []
    for digest, runs in versions.items():
        now = " (the source now)" if digest == attack.sha256 else ""
        lines.append(f"  {digest[:8]}{now}: {pluralize(len(runs), 'run')}, last {day_and_time(runs[0].created_at)}")
    return "\n".join(["Versions of the source in runs", *lines]) if lines else ""


def attack_description(attack: AttackFile, schema: AttackSchema | None = None) -> str:
    """Return the text about `attack`; without its schema, only its summary or why it is broken."""
    if attack.error is not None:
        return f"{sanitize(attack.name)} is broken\n\n{sanitize(attack.error)}"
    if schema is None:
        return f"{sanitize(attack.shown_name)}\n\n{sanitize(attack.summary)}"
    paragraphs = [" ".join(paragraph.split()) for paragraph in schema.doc.split("\n\n")]
    lines = [sanitize(attack.shown_name), "", *(f"{sanitize(paragraph)}\n" for paragraph in paragraphs)]
    if attack.reference:
        lines += [f"Reference: {sanitize(attack.reference)}", ""]
    lines += [sanitize(f"{parameter.name}: {parameter.in_words}") for parameter in parameters_in(schema.schema)]
    return "\n".join(lines)
