"""Recall against errors, drawn: the whole walk down a submission, the cap, and the interval at the cap."""

import io
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from harness.core import files
from harness.core.errors import HarnessError
from harness.core.scoring import Score

FORMATS = (".svg", ".png")


def figure_format(path: Path) -> str:
    """`svg` or `png`, by the suffix of `path`. Raises HarnessError for any other."""
    if path.suffix.lower() not in FORMATS:
        raise HarnessError(f"{path}: a figure is written as {' or '.join(FORMATS)}.")
    return path.suffix.lower().removeprefix(".")


def write_recall_curve(score: Score, path: Path, *, title: str) -> None:
    """Write recall (a fraction) against errors (a count, logarithmic) to `path`, replacing what was there.

    Equal scores and titles give equal bytes. Raises HarnessError when the suffix names no known format or the folder
    cannot be written to.
    """
    file_format = figure_format(path)
    content = io.BytesIO()
    # Ids inside an SVG come from a random salt, its metadata from the clock, unless both are set.
    with matplotlib.rc_context({"svg.hashsalt": "harness"}):
        recall_figure(score, title=title).savefig(
            content, format=file_format, dpi=150, metadata={"Date": None} if file_format == "svg" else None
        )
    try:
        files.write_whole(path, content.getvalue())
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written ({error.strerror}).") from None


def recall_figure(score: Score, *, title: str) -> Figure:
    """The figure itself: x = errors at which the walk would end, 1 .. wrong rows + 1; y = recall there."""
    recall = score.curve / score.examples
    errors = np.arange(1, len(recall) + 1)
    cap = score.at_errors(score.cap)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.step(errors, recall, where="post", color="#1f5f8b", label="recall")
    axes.axvline(score.cap, color="#777777", linestyle="--", linewidth=1, label=f"cap: {score.cap:,} errors")
    low, high, unit = score.interval
    axes.errorbar(
        [score.cap],
        [cap.recall],
        # A percentile interval may lie beside the figure; a bar has no negative length.
        yerr=[[max(0.0, cap.recall - low)], [max(0.0, high - cap.recall)]],
        fmt="o",
        markersize=4,
        capsize=4,
        color="#b03a2e",
        label=f"{cap.recall:.3f} [{low:.3f}, {high:.3f}], by {unit}",
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlim(1, max(len(recall), score.cap) * 1.25)
    axes.set_ylim(0, min(1.0, 1.15 * max(float(recall[-1]), high, 0.05)))
    axes.set_xlabel("errors (wrong rows)")
    axes.set_ylabel(f"recall of {score.examples:,} examples")
    # Matplotlib reads $…$ as mathematics; a title is a file's name.
    axes.set_title(title.replace("$", r"\$"), fontsize=10)
    axes.grid(True, alpha=0.25)
    axes.legend(loc="upper left", fontsize=9)
    return figure
