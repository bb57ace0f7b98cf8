"""`description.pdf` and its sources: a team's Markdown and what the record says of its run, on two to five pages."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.core.text import pluralize
from harness.figures.panels import recall_in_time_panel, recall_panel, rows_in_time_panel
from harness.submit import tables
from harness.submit.examples import ShownExample, chosen_examples
from harness.submit.facts import RunFacts
from harness.submit.markdown import as_typst
from harness.submit.tables import Code, Rows
from harness.submit.typesetting import Typeset, array, content, markup, string

FEWEST_PAGES, MOST_PAGES = 2, 5
TEMPLATES = paths.PACKAGE / "submit" / "templates"
PDF, MAIN, TEMPLATE = "description.pdf", "description.typ", "template.typ"
_MARKDOWN, _METHOD = "method.md", "method.typ"
_LEFT_FIGURE, _RIGHT_FIGURE = "recall.svg", "time.svg"
_PANEL = (3.35, 2.3)
_EXAMPLES = 1
_MOST_CHARACTERS = 50_000
_AGAIN = f"`typst compile --ignore-system-fonts {MAIN}` makes {PDF} again, to the byte."


class Team(Protocol):
    """Who describes: members as `Name, Affiliation`."""

    @property
    def name(self) -> str: ...

    @property
    def members(self) -> Sequence[str]: ...

    @property
    def contact(self) -> str: ...


def write_description(facts: RunFacts, team: Team | None, markdown: str, folder: Path, *, redact: bool) -> int:
    """Write description.pdf and all that it is made from into `folder`; returns its number of pages.

    `typst compile --ignore-system-fonts description.typ` makes the PDF again. Equal facts, team and Markdown give equal
    bytes under one version of typst and Matplotlib. With `redact`, suffixes are told by length and hash. Raises
    HarnessError when it has more than MOST_PAGES pages, which leaves the files in place to look at.
    """
    if len(markdown) > _MOST_CHARACTERS:
        raise HarnessError(
            f"the team's Markdown has {len(markdown):,} characters, and {MOST_PAGES} pages hold fewer than "
            f"{_MOST_CHARACTERS:,}: shorten it."
        )
    shutil.copyfile(TEMPLATES / MAIN, folder / TEMPLATE)
    for name, svg in _figures(facts).items():
        write_atomically(folder / name, svg)
    write_atomically(folder / _MARKDOWN, markdown)
    write_atomically(folder / MAIN, _document(facts, team, redact=redact))
    write_atomically(folder / _METHOD, '#import "template.typ": *\n')
    own = Typeset(folder / MAIN).pages
    write_atomically(folder / _METHOD, '#import "template.typ": *\n\n' + as_typst(markdown))
    typeset = Typeset(folder / MAIN)
    write_atomically(folder / PDF, typeset.pdf)
    if typeset.pages > MOST_PAGES:
        raise HarnessError(
            f"{folder / PDF}: {typeset.pages} pages where a description has {FEWEST_PAGES} to {MOST_PAGES}; "
            f"{pluralize(own, 'page')} of them come from the run's record: shorten the team's Markdown, "
            f"which may fill some {MOST_PAGES - own}."
        )
    return typeset.pages


def _figures(facts: RunFacts) -> dict[str, str]:
    """The SVG of each figure, by its file's name."""
    if facts.score is None:
        history = [(moment.spent, float(moment.rows)) for moment in facts.course]
        return {_RIGHT_FIGURE: rows_in_time_panel([("", history)], size=_PANEL)}
    in_time = [(moment.spent, moment.recall) for moment in facts.course if moment.recall is not None]
    return {
        _LEFT_FIGURE: recall_panel([("", facts.score)], size=_PANEL),
        _RIGHT_FIGURE: recall_in_time_panel([("", in_time)], cap=facts.score.cap, size=_PANEL),
    }


def _document(facts: RunFacts, team: Team | None, *, redact: bool) -> str:
    """The Typst source of the whole description, which includes the team's Markdown by its file."""
    sections = {
        "Method": _method(facts),
        "Results": _results(facts),
        "What the attack queried": _queries(facts),
        "Parameters": _parameters(facts),
        "Data used for training": _training(facts),
        "Target, hardware and time": "#" + _facts("Target and machine.", tables.target_and_machine(facts)),
        "Examples": _examples(facts, redact=redact),
        "Record": "#" + _facts("What the run is known by, and what it promises.", tables.record(facts)),
    }
    body = "\n\n".join(f"= {markup(title)}\n\n{text}" for title, text in sections.items())
    return f'// {_AGAIN}\n\n#import "{TEMPLATE}": *\n\n#show: description.with(\n{_title(facts, team)})\n\n{body}\n'


def _title(facts: RunFacts, team: Team | None) -> str:
    title = f"{facts.spec.attack.name} on round {facts.spec.round.name}"
    arguments = {
        "title": content(title),
        "plain-title": string(title),
        "kind": content(f"Description of run {facts.spec.id}"),
        "summary": content(tables.headline(facts)),
        "cautions": array([content(caution) for caution in tables.cautions(facts)]),
    }
    if team is not None:
        arguments["team"] = content(team.name)
        arguments["authors"] = array([string(member) for member in team.members])
        arguments["contact"] = content(team.contact)
    return "".join(f"  {name}: {value},\n" for name, value in arguments.items())


def _method(facts: RunFacts) -> str:
    reference = facts.spec.attack.reference
    after = f"#emph{content(f'After: {reference}.')};" if reference else ""
    declared = " ".join(filter(None, (markup(facts.method), after)))
    return f'{declared}\n\n#include "{_METHOD}"'


def _results(facts: RunFacts) -> str:
    table = _facts("What the submission comes to.", tables.results(facts))
    if facts.score is None:
        return f"#{table}\n\n#half({_drawn(_RIGHT_FIGURE, 'Rows of the submission against time.')})"
    others = _numbers("Other caps on errors.", tables.at_errors(facts.score))
    at_cap = pluralize(facts.score.cap, "error")
    left = _drawn(_LEFT_FIGURE, f"Recall against errors; the bar is the 95 % interval at {at_cap}.")
    right = _drawn(_RIGHT_FIGURE, f"Recall at {at_cap} against time.")
    return f"#side-by-side({table}, {others}, columns: (1.9fr, 1fr))\n\n#floating(side-by-side({left}, {right}))"


def _queries(facts: RunFacts) -> str:
    stages = tables.stages(facts)
    words = markup(tables.queries_in_words(facts))
    return f"{words}\n\n#{_numbers('Stages of the attack.', stages)}" if stages else words


def _parameters(facts: RunFacts) -> str:
    rows = tables.parameters(facts)
    return "#" + _facts("Parameters as the run resolved them.", rows) if rows else "The attack has no parameters\\."


def _training(facts: RunFacts) -> str:
    overlap = tables.training_overlap(facts)
    words = markup(tables.training_in_words(facts))
    if not overlap:
        return words
    return f"{words}\n\n#{_facts('Overlap of the attacked examples with the training rows.', overlap)}"


def _examples(facts: RunFacts, *, redact: bool) -> str:
    chosen = chosen_examples(facts, most=_EXAMPLES, redact=redact)
    verdicts = (("right", chosen.right), ("wrong", chosen.wrong), ("unknown", chosen.unknown))
    shown = [_example(example, verdict) for verdict, examples in verdicts for example in examples]
    if not shown:
        return "The submission has no row\\."
    which, told = (
        "The first right row and the first wrong one.",
        "From the underlined part on, a guess is not the answer.",
    )
    if facts.score is None:
        which, told = "The first row of the submission.", ""
    if redact:
        told = "Suffixes are told by their length and hash."
    return "\n\n".join([markup(f"{which} {told}"), *shown])


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
    header, *body = ([_cell(cell) for cell in row] for row in rows)
    return f"numbers({content(caption)}, {array(header)}, {array([array(row) for row in body])})"


def _drawn(file: str, caption: str) -> str:
    return f"drawn({string(file)}, {string(caption)}, {content(caption)})"


def _cell(cell: str) -> str:
    return f"code({string(cell)})" if isinstance(cell, Code) else content(cell)
