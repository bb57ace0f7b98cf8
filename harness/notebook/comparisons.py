"""A comparison of runs, as an object that a notebook shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.analysis import comparison
from harness.analysis import comparison_tables as tables
from harness.core.text import align_columns, sanitize
from harness.notebook.html import FIGURE_SIZE, html_figure, html_table, html_text
from harness.notebook.runs import Run, open_run
from harness.runs.folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs of one round side by side. A notebook shows it as tables with the curves of recall vs. errors.

    details: everything that was compared.
    """

    details: comparison.Comparison

    def table(self) -> "pd.DataFrame":
        """Return one row per run; the index `run` is the id.

        Columns: `attack`, `status`, `recall`, `low` and `high` (its 95 % interval), `precision`, `elapsed_s`, `guesses`
        and `suffixes_per_s`.
        """
        import pandas as pd

        rows = []
        for one in self.details.runs:
            score = one.whole.score
            low, high, _ = score.interval
            rows.append(
                {
                    "run": one.id,
                    "attack": one.attack,
                    "status": str(one.status),
                    "recall": score.recall_at_cap,
                    "low": low,
                    "high": high,
                    "precision": score.precision_at_cap,
                    "elapsed_s": one.elapsed_s,
                    "guesses": one.guesses,
                    "suffixes_per_s": one.suffixes_per_s,
                }
            )
        return pd.DataFrame(rows).set_index("run")

    def as_dict(self) -> dict[str, Any]:
        """Return what `harness compare --json` prints: also recall over time, and, for two runs, their difference."""
        return self.details.as_json()

    def __repr__(self) -> str:
        return sanitize_lines([align_columns(tables.scores_and_pace(self.details)), *self._contrast()])

    def _repr_html_(self) -> str:
        from harness.figures.curves import recall_panel

        header, *rows = tables.scores_and_pace(self.details)
        differing = tables.differing_settings(self.details)
        parts = [html_table(rows, header=header)]
        parts += [f"<p>{html_text(line)}</p>" for line in self._contrast()]
        scores = [(f"{one.id} ({one.shown_attack})", one.whole.score) for one in self.details.runs]
        parts.append(html_figure(recall_panel(scores, size=FIGURE_SIZE), "Recall vs. errors of the runs"))
        if differing:
            parts.append(html_table(differing[1:], header=differing[0]))
        return "".join(parts)

    def _contrast(self) -> list[str]:
        found = self.details.contrast
        return [] if found is None else tables.contrast_lines(self.details, found, "all examples")


def sanitize_lines(texts: list[str]) -> str:
    """Return texts below each other, each line of them safe to print."""
    return "\n".join(sanitize(line) for text in texts for line in text.split("\n"))


def compare(*runs: Run | str | Path) -> Comparison:
    """Compare two or more runs of one round, as `harness compare` does.

    runs: Runs, or what `open_run` accepts. Two runs are also compared example by example.

    Raises HarnessError if there are fewer than two runs, they attacked different examples, or their round is blind.
    """
    opened = [one if isinstance(one, Run) else open_run(one) for one in runs]
    return Comparison(comparison.compare_runs([RunFolder(one.directory) for one in opened]))
