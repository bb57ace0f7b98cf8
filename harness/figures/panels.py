"""Draw single plots as SVG text for documents: recall vs. errors, or a value over time, of one or more runs."""

from collections.abc import Sequence

from harness.core.scoring import Score
from harness.figures.curves import History, draw_in_time, draw_recall
from harness.figures.sheet import sheet

Size = tuple[float, float]
"""Width and height of a panel, in inches."""


def recall_panel(scores: Sequence[tuple[str, Score]], *, size: Size) -> str:
    """Draw recall vs. errors of each labelled score on the same examples, with the intervals and the cap."""
    with sheet(*size) as (axes, svg):
        draw_recall(axes, scores)
    return svg.getvalue()


def history_panel(histories: Sequence[tuple[str, History]], *, label: str, size: Size) -> str:
    """Draw a value over time for each labelled history. `label` names the value."""
    with sheet(*size) as (axes, svg):
        draw_in_time(axes, histories, label=label)
    return svg.getvalue()
