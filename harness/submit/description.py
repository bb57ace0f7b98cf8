"""Write description.pdf and its sources: the team's Markdown and the record of its run, on two to five pages."""

import shutil
from pathlib import Path

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.core.text import pluralize
from harness.figures.curves import history_panel, recall_panel
from harness.submit import run_tables
from harness.submit.markdown_to_typst import markdown_to_typst
from harness.submit.run_facts import RunFacts
from harness.submit.run_tables import Monospace, Rows
from harness.submit.shown_examples import ExampleSelection, ShownExample, select_examples
from harness.submit.team import Team
from harness.submit.typesetting import array, content, markup, string, typeset

MIN_PAGES, MAX_PAGES = 2, 5
TEMPLATES = paths.PACKAGE / "submit" / "templates"
PDF, MAIN, TEMPLATE = "description.pdf", "description.typ", "template.typ"
_MARKDOWN, _METHOD = "method.md", "method.typ"
_LEFT_FIGURE, _RIGHT_FIGURE = "recall.svg", "time.svg"
_PANEL = (3.35, 2.3)
_EXAMPLES = 3
"""Examples of each kind that are shown."""
_HEADER = f"`typst compile --ignore-system-fonts {MAIN}` gives the same {PDF}, byte for byte."


def write_description(facts: RunFacts, team: Team | None, markdown: str, folder: Path, *, redact: bool) -> int:
    """Write description.pdf and its sources to `folder`, and return the number of pages.

    `typst compile --ignore-system-fonts description.typ` gives the same PDF. Equal facts, team and Markdown give equal
    bytes with the same versions of typst and Matplotlib. With `redact`, suffixes are replaced with their length and
    hash. Raises HarnessError if the PDF has more than MAX_PAGES pages; the files then stay for inspection.
    """
    shutil.copyfile(TEMPLATES / MAIN, folder / TEMPLATE)
    for name, svg in _figures(facts).items():
        write_atomically(folder / name, svg)
    write_atomically(folder / _MARKDOWN, markdown)
    write_atomically(folder / _METHOD, '#import "template.typ": *\n\n' + markdown_to_typst(markdown))
    examples = select_examples(facts, most=_EXAMPLES, redact=redact)
    write_atomically(folder / MAIN, _document(facts, team, examples, redact=redact))
    pdf, pages = typeset(folder / MAIN)
    write_atomically(folder / PDF, pdf)
    if pages > MAX_PAGES:
        raise HarnessError(
            f"{folder / PDF}: {pages} pages, a description has {MIN_PAGES} to {MAX_PAGES}. Shorten the team's "
            f"Markdown by about {pluralize(pages - MAX_PAGES, 'page')}."
        )
    return pages


def _figures(facts: RunFacts) -> dict[str, str]:
    """Return the SVG of each figure by file name."""
    if facts.score is None:
        return {_RIGHT_FIGURE: history_panel([("", facts.curve)], label="rows of the submission", size=_PANEL)}
    return {
        _LEFT_FIGURE: recall_panel([("", facts.score)], size=_PANEL),
        _RIGHT_FIGURE: history_panel([("", facts.curve)], label=f"Recall@{facts.score.cap}", size=_PANEL),
    }


def _document(facts: RunFacts, team: Team | None, examples: ExampleSelection, *, redact: bool) -> str:
    """Return the Typst source of the description. It includes the file with the team's Markdown."""
    sections = {
        "Method": _method(facts),
        "Results": _results(facts),
        "Queries": _queries(facts),
        "Parameters": _parameters(facts),
        "Training data": _training(facts),
        "Target, hardware and time": "#" + _facts("Target and machine.", run_tables.target_and_machine(facts)),
        "Record": "#" + _facts("Identity, status and inputs of the run.", run_tables.record(facts)),
        "Examples": _examples(facts, examples, redact=redact),
    }
    body = "\n\n".join(f"= {markup(title)}\n\n{text}" for title, text in sections.items())
    return f'// {_HEADER}\n\n#import "{TEMPLATE}": *\n\n#show: description.with(\n{_title(facts, team)})\n\n{body}\n'


def _title(facts: RunFacts, team: Team | None) -> str:
    title = f"{facts.spec.attack.name} on round {facts.spec.round.name}"
    arguments = {
        "title": content(title),
        "plain-title": string(title),
        "kind": content(f"Description of run {facts.spec.id}"),
        "summary": content(run_tables.headline(facts)),
        "cautions": array([content(caution) for caution in run_tables.cautions(facts)]),
    }
    if team is not None:
        arguments["team"] = content(team.name or "")
        arguments["authors"] = array([string(member.name_and_affiliation) for member in team.members])
        arguments["contact"] = content(team.contact or "")
    return "".join(f"  {name}: {value},\n" for name, value in arguments.items())


def _method(facts: RunFacts) -> str:
    reference = facts.spec.attack.reference
    source = f"#emph{content(f'Reference: {reference}.')};" if reference else ""
    declared = " ".join(filter(None, (markup(facts.method), source)))
    return f'{declared}\n\n#include "{_METHOD}"'


def _results(facts: RunFacts) -> str:
    table = _facts("Results of the submission.", run_tables.results(facts))
    if facts.score is None:
        return f"#{table}\n\n#half({_captioned_figure(_RIGHT_FIGURE, 'Rows of the submission vs. time.')})"
    others = _numbers("Other error caps.", run_tables.at_errors(facts.score))
    cap = f"{facts.score.cap:,}"
    left = _captioned_figure(_LEFT_FIGURE, "Recall vs. errors, with the interval at the cap.")
    right = _captioned_figure(_RIGHT_FIGURE, f"Recall@{cap} vs. time.")
    return f"#side-by-side({table}, {others}, columns: (1.9fr, 1fr))\n\n#floating(side-by-side({left}, {right}))"


def _queries(facts: RunFacts) -> str:
    stages = run_tables.stages(facts)
    words = markup(run_tables.query_summary(facts))
    return f"{words}\n\n#{_numbers('Stages of the attack.', stages)}" if stages else words


def _parameters(facts: RunFacts) -> str:
    rows = run_tables.parameters(facts)
    if len(rows) == 1:
        return "The attack has no parameters\\."
    caption = "Parameters of the run, and what they mean." if len(rows[0]) > 2 else "Parameters of the run."
    return "#" + _table("described", caption, rows)


def _training(facts: RunFacts) -> str:
    overlap = run_tables.training_overlap(facts)
    words = markup(run_tables.training_summary(facts))
    if not overlap:
        return words
    return f"{words}\n\n#{_facts('Overlap of the attacked examples with the training rows.', overlap)}"


def _examples(facts: RunFacts, chosen: ExampleSelection, *, redact: bool) -> str:
    verdicts = (("correct", chosen.correct), ("wrong", chosen.wrong), ("unknown", chosen.unknown))
    shown = [_example(example, verdict) for verdict, examples in verdicts for example in examples]
    if not shown:
        return "The submission has no rows\\."
    caption = "The first correct rows and the first wrong rows of the submission."
    if facts.score is None:
        caption = "The first rows of the submission."
    if redact:
        caption += " Suffixes are replaced with their length and hash."
    elif facts.score is not None:
        caption += " The underlined part of a guess differs from the answer."
    return "\n\n".join([markup(caption), *shown])


def _example(example: ShownExample, verdict: str) -> str:
    (guess,) = example.guesses
    lines = [
        ("prefix", content(example.prefix)),
        ("guess", f"[{markup(guess.agrees)}#underline{content(guess.differs)};]"),
    ]
    if example.answer is not None and verdict == "wrong":
        lines.append(("answer", content(example.answer)))
    head = f"Example {example.id:,}, row {guess.row or 0:,}: {verdict}"
    return f"#example({content(head)}, {array([f'({content(name)}, {value})' for name, value in lines])})"


def _facts(caption: str, rows: Rows) -> str:
    pairs = array([array([_cell(cell) for cell in row]) for row in rows])
    return f"facts({content(caption)}, {pairs})"


def _numbers(caption: str, rows: Rows) -> str:
    return _table("numbers", caption, rows)


def _table(function: str, caption: str, rows: Rows) -> str:
    """Return the call of a table function of the template, whose first row is the header."""
    header, *body = ([_cell(cell) for cell in row] for row in rows)
    return f"{function}({content(caption)}, {array(header)}, {array([array(row) for row in body])})"


def _captioned_figure(file: str, caption: str) -> str:
    return f"drawn({string(file)}, {string(caption)}, {content(caption)})"


def _cell(cell: str) -> str:
    return f"code({string(cell)})" if isinstance(cell, Monospace) else content(cell)
