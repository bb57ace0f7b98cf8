"""Write description.pdf and its sources: the team's Markdown and the record of its run, on two to five pages."""

import shutil
from pathlib import Path

from markupsafe import Markup

from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.core.text import pluralize
from harness.figures.curves import history_panel, recall_panel
from harness.submit import run_tables
from harness.submit.html_page import TEMPLATES, template_environment
from harness.submit.run_facts import RunFacts, select_examples
from harness.submit.team import Team
from harness.submit.typst import markdown_to_typst, markup, string, typeset

MIN_PAGES, MAX_PAGES = 2, 5
PDF, MAIN, TEMPLATE = "description.pdf", "description.typ", "template.typ"
_PANEL = (3.35, 2.3)
_EXAMPLES = 3
"""Examples of each kind that are shown."""


def write_description(facts: RunFacts, team: Team | None, markdown: str, folder: Path, *, redact: bool) -> int:
    """Write description.pdf and its sources to `folder`, and return the number of pages.

    `typst compile --ignore-system-fonts description.typ` gives the same PDF. Equal facts, team and Markdown give equal
    bytes with the same versions of typst and Matplotlib. With `redact`, suffixes are replaced with their length and
    hash. Raises HarnessError if the PDF has more than MAX_PAGES pages; the files then stay for inspection.
    """
    shutil.copyfile(TEMPLATES / MAIN, folder / TEMPLATE)
    label = "rows of the submission" if facts.score is None else f"Recall@{facts.score.cap}"
    write_atomically(folder / "time.svg", history_panel([("", facts.curve)], label=label, size=_PANEL))
    if facts.score is not None:
        write_atomically(folder / "recall.svg", recall_panel([("", facts.score)], size=_PANEL))
    write_atomically(folder / "method.md", markdown)
    write_atomically(folder / "method.typ", '#import "template.typ": *\n\n' + markdown_to_typst(markdown))
    environment = template_environment(lambda text: Markup(markup(text)))  # noqa: S704 (Typst, not HTML)
    environment.filters["literal"] = lambda text: Markup(string(text))  # noqa: S704
    document = environment.get_template(f"{MAIN}.j2").render(
        run=facts,
        team=team,
        examples=select_examples(facts, limit=_EXAMPLES, redact=redact),
        tables=run_tables,
        redact=redact,
    )
    write_atomically(folder / MAIN, document)
    pdf, pages = typeset(folder / MAIN)
    write_atomically(folder / PDF, pdf)
    if pages > MAX_PAGES:
        raise HarnessError(
            f"{folder / PDF}: {pages} pages, a description has {MIN_PAGES} to {MAX_PAGES}. Shorten the team's "
            f"Markdown by about {pluralize(pages - MAX_PAGES, 'page')}."
        )
    return pages
