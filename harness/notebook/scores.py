"""The score of a submission, as an object that a notebook shows, and the HTML of such objects.

The HTML takes the colours of the page, and all text in it is escaped. A figure is an image on white, so that it is
readable in a dark theme, and so that names inside one SVG cannot clash with those of another on the same page.
"""

import base64
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.analysis.submissions import find_submission
from harness.core import scoring
from harness.core.intervals import Interval
from harness.core.text import format_interval, format_score, pluralize, sanitize, shorten_middle
from harness.runs.facts import submission_facts

if TYPE_CHECKING:
    import pandas as pd

FIGURE_SIZE = (5.2, 3.0)
"""Width and height of a figure in inches."""
_CELL_CHARACTERS = 44
_CELL = "text-align:left;padding:2px 12px 2px 0"


def html_text(text: str) -> str:
    """Return text, which may come from a model or a file, as HTML that shows it."""
    return escape(sanitize(text))


def html_table(rows: Sequence[Sequence[str]], *, header: Sequence[str] = ()) -> str:
    """Return a table of texts, of which long ones are shortened. Without a header, each row begins with its heading."""
    head = f"<tr>{''.join(_cell('th', cell) for cell in header)}</tr>" if header else ""
    first = "td" if header else "th"
    body = [
        f"<tr>{''.join(_cell(first if place == 0 else 'td', cell) for place, cell in enumerate(row))}</tr>"
        for row in rows
    ]
    return f'<table style="color:inherit;background:none">{head}{"".join(body)}</table>'


def html_figure(svg: str, description: str) -> str:
    """Return an SVG as an image with a text that describes it."""
    content = base64.b64encode(svg.encode()).decode()
    return (
        f'<img alt="{html_text(description)}" style="background:#fff;max-width:100%" '
        f'src="data:image/svg+xml;base64,{content}">'
    )


def _cell(tag: str, text: str) -> str:
    return f'<{tag} style="{_CELL}">{html_text(shorten_middle(text, _CELL_CHARACTERS))}</{tag}>'


@dataclass(frozen=True, repr=False)
class Score:
    """The score of a submission. A notebook shows it as a table with the curve of recall vs. errors.

    name: Name of the file or the run.
    details: Everything that was counted.
    """

    name: str
    details: scoring.Score

    @property
    def recall(self) -> float:
        """Recall at the error cap, in [0, 1]."""
        return self.details.recall_at_cap

    @property
    def interval(self) -> Interval:
        """The 95 % interval of `recall`: low, high, and the unit that the bootstrap draws."""
        return self.details.interval

    @property
    def precision(self) -> float:
        """The share of solved examples among solved examples and wrong rows, at the error cap."""
        return self.details.precision_at_cap

    @property
    def error_cap(self) -> int:
        """The wrong rows at which scoring stops."""
        return self.details.cap

    @property
    def examples(self) -> int:
        """The number of examples."""
        return self.details.examples

    @property
    def solved(self) -> int:
        """The examples that are solved before the error cap is reached."""
        return self.details.solved

    @property
    def rows(self) -> int:
        """The rows of the submission."""
        return self.details.rows

    def curve(self) -> "pd.DataFrame":
        """Return recall vs. errors: columns `errors` (from 1 to wrong rows + 1) and `recall` (in [0, 1])."""
        from harness.notebook.tables import curve_table

        return curve_table(self.details.curve, self.examples)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of `harness score --json`, without its curve."""
        return self.details.as_json()

    def __repr__(self) -> str:
        return f"{self._headline}: solved {self.solved:,} of {pluralize(self.examples, 'example')} ({self.name})"

    def _repr_html_(self) -> str:
        from harness.figures.curves import recall_panel

        rows = [(fact.label, fact.text) for fact in submission_facts(self.details) if fact.text]
        figure = recall_panel([("", self.details)], size=FIGURE_SIZE)
        return html_table([("submission", self.name), *rows]) + html_figure(figure, f"Recall vs. errors of {self.name}")

    @property
    def _headline(self) -> str:
        low, high, unit = self.interval
        return f"Recall@{self.error_cap:,}: {format_score(self.recall)} {format_interval(low, high)} ({unit})"


def score(
    submission: str | Path,
    round: str | Path | None = None,
    *,
    answers: str | Path | None = None,
    last: int | None = None,
    cap: int | None = None,
) -> Score:
    """Score a submission, as `harness score` does.

    submission: A CSV file, or a run by its id, by the beginning of its id, or as `latest`.
    round: Name or TOML file of the round whose answers and rules are used. A run is scored on its own round.
    answers: Instead of a round, a .npy file of answers, [examples, suffix length]. If all example ids of a CSV file are
    below 1,000, it is compared with the last 1,000 rows of `answers`, as in the challenge, and a warning says so.
    last: With `answers`, use only the last `last` rows of the file.
    cap: Wrong rows at which scoring stops. The default is the round's, or else 100.

    Raises HarnessError if the submission is not valid, the answers are not known, or a file is missing.
    """
    submitted = find_submission(
        str(submission),
        answers=None if answers is None else Path(answers),
        last=last,
        cap=cap,
        round_name=None if round is None else str(round),
    )
    if submitted.note:
        warnings.warn(submitted.note, stacklevel=2)
    return Score(submitted.name, submitted.score())
