"""The comparison as tables: a forest plot, the paired differences, the differing examples and the changed settings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from harness.analysis.comparison import ComparedRun, Comparison, Trajectory
from harness.analysis.decoded_text import text_of_run
from harness.analysis.parts import Contrast, Part, contrast
from harness.core.arrays import Bools, Ints
from harness.core.examples import load_answers
from harness.core.text import format_interval, format_p_value, format_score, shorten, shorten_middle
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.tui.columns import GLYPHS, Cell, Column, Row, Span
from harness.tui.plot import curve_colour, marker
from harness.tui.run_list import interval_bar, scale_title
from harness.tui.tables import CellsOf, Table, table_of

SOURCE = "attack.sha256"
"""The key of the row of the sources."""
_LIMITED = "The --limits differ, so only the examples of the smallest one are compared. Use one --limit to compare all."
_MARKS = {"✓": "good", "✗": "bad", "–": "dim"}
_MAX_VALUE = 28
_HASH_LABELS = {
    SOURCE: "source ⏎",
    "target.weights_sha256": "weights",
    "reference.weights_sha256": "reference weights",
}
_HASHES = ("sha256.", "target.commit", "reference.commit", *_HASH_LABELS)


@dataclass(frozen=True)
class Compared:
    """A comparison on one part of the round. pairs: the contrasts of runs that are over, by their numbers."""

    comparison: Comparison
    part: Part
    is_not_in_train: bool
    pairs: Mapping[tuple[int, int], Contrast]

    @property
    def trajectories(self) -> list[Trajectory]:
        """The score of each run on the part, and its recall over time."""
        return [(self.is_not_in_train and run.not_in_train) or run.whole for run in self.comparison.runs]

    @property
    def is_limited(self) -> bool:
        """True if a run attacks further examples, which are left out because others do not attack them."""
        examples = len(self.comparison.whole)
        return any(run.rows.ids.max(initial=0) >= examples for run in self.comparison.runs)

    @property
    def solved(self) -> Bools:
        """The examples of the part that each run solves within the cap, [runs, examples]."""
        return np.array([self.part.solved_examples(run.submission) for run in self.comparison.runs])

    @property
    def attacked(self) -> Bools:
        """The examples of the part that each run has attacked, [runs, examples]: all of them once it has finished."""
        runs, ids = self.comparison.runs, self.part.ids
        return np.array([np.isin(ids, run.rows.ids) | (run.status is Status.FINISHED) for run in runs])

    @property
    def names(self) -> list[str]:
        """The marker and the short id of each run."""
        return [f"{marker(number)} {_short(run)}" for number, run in enumerate(self.comparison.runs)]


def compared_on(comparison: Comparison, *, not_in_train: bool) -> Compared:
    """Return the comparison on the whole round, or on its examples that are not in the training rows, if there are any.

    The paired differences leave out runs that are not tested.
    """
    part = (not_in_train and comparison.not_in_train) or comparison.whole
    tested = [number for number, run in enumerate(comparison.runs) if not run.not_tested_because]
    pairs = {
        (row, column): contrast(comparison.runs[row].submission, comparison.runs[column].submission, part)
        for row, column in combinations(tested, 2)
    }
    return Compared(comparison, part, part is not comparison.whole, pairs)


def tables_of(compared: Compared, answers: Sequence[str], *, is_dark: bool) -> dict[str, Table]:
    """Return every table by its name; `answers` are those of `answer_texts`."""
    return {
        "score": forest_table(compared, is_dark=is_dark),
        "difference": difference_table(compared, is_dark=is_dark),
        "example": example_table(compared, answers),
        "setting": setting_table(compared),
    }


def header_of(compared: Compared) -> list[str]:
    """Return the verdict, what is compared, and whether the runs have different limits, as lines."""
    runs, part = compared.comparison.runs, compared.part
    noun = "examples not in the training rows" if compared.is_not_in_train else "examples"
    title = f"{len(runs)} runs of {compared.comparison.round} · {len(part):,} {noun} · Recall@{part.cap}"
    if left_out := len(compared.comparison.not_tested_because):
        title += f" · {left_out} not at its end or without guesses: left out of the tests"
    return [line for line in (verdict_of(compared), title, _LIMITED if compared.is_limited else "") if line]


def verdict_of(compared: Compared) -> str:
    """Return in a sentence which run is the best, by how much, and at which price; empty if no two runs are tested.

    While runs are at work and no two are tested, it is about the examples that all runs have attacked.
    """
    runs, scores = compared.comparison.runs, [trajectory.score for trajectory in compared.trajectories]
    tested = {number for pair in compared.pairs for number in pair}
    so_far = "" if all(run.status.is_complete for run in runs) else "So far, "
    if not tested:
        return so_far and so_far + _solved_so_far(compared)
    best, second = sorted(tested, key=lambda number: -scores[number].recall_at_cap)[:2]
    pair, sign = compared.pairs[min(best, second), max(best, second)], 1 if best < second else -1
    difference, (low, high, _), _ = pair.difference
    # Plus zero, so that no zero has a minus sign.
    low, high = sorted((sign * low + 0.0, sign * high + 0.0))
    names = [f"{_short(runs[number])} {runs[number].attack}" for number in (best, second)]
    gap = f"{format_score(sign * difference)} {format_interval(low, high)}, {format_p_value(pair.mcnemar_p)}"
    if len(compared.pairs) > 1:
        gap += f" (not corrected for {len(compared.pairs)} pairs)"
    verb = f"beats {names[1]} by {gap}" if low > 0 else f"and {names[1]} cannot be told apart: {gap}"
    ratio = max(runs[best].elapsed_s, 1.0) / max(runs[second].elapsed_s, 1.0)
    price = f"{ratio:.2g} times as long" if not 0.8 < ratio < 1.25 else "as long"
    # A run with a higher limit spends its time on further examples too.
    return f"{so_far}{names[0]} {verb}." + ("" if compared.is_limited else f" {_short(runs[best])} took {price}.")


def _solved_so_far(compared: Compared) -> str:
    is_common = compared.attacked.all(axis=0)
    if not is_common.any():
        return "the runs have attacked no example in common."
    counts, names = (compared.solved & is_common).sum(axis=1), compared.names
    best, second, *_ = np.argsort(-counts, kind="stable").tolist()
    solved = f"{names[best]} solves {counts[best]:,} and {names[second]} {counts[second]:,}"
    return f"{solved} of the {is_common.sum():,} examples that all runs have attacked."


def forest_table(compared: Compared, *, is_dark: bool) -> Table:
    """Return one row per run: its marker, name, recall, and the interval as a line on a common scale."""
    runs, scores = compared.comparison.runs, [trajectory.score for trajectory in compared.trajectories]
    low = min(score.interval.low for score in scores)
    high = max(*(score.interval.high for score in scores), low + 0.01)
    # A run without a guess has no score.
    recalls = [score.recall_at_cap if run.guesses else None for run, score in zip(runs, scores, strict=True)]
    columns: CellsOf[int] = {
        Column("run", min_width=12): lambda number: _name(number, runs[number], is_dark=is_dark),
        Column("attack", min_width=28): lambda number: runs[number].shown_attack,
        Column(f"Recall@{compared.part.cap}", is_right=True): lambda number: [
            (format_score(recalls[number]), "dim" if recalls[number] is None else "bold")
        ],
        Column(scale_title(low, high), fills=True, min_width=10): lambda number: interval_bar(
            recalls[number],
            scores[number].interval[:2],
            scale=(low, high),
            colour=curve_colour(number, is_dark=is_dark),
        ),
        Column("time", is_right=True): lambda number: format_duration(runs[number].elapsed_s),
    }
    return table_of(columns, {run.id: number for number, run in enumerate(runs)})


def difference_table(compared: Compared, *, is_dark: bool) -> Table:
    """Return the paired difference of each pair of runs on a common scale, and who solves."""
    names, intervals = compared.names, [pair.difference.interval for pair in compared.pairs.values()]
    scale = min([0.0, *(low for low, *_ in intervals)]), max([0.01, *(high for _, high, _ in intervals)])
    title = " by ".join(["difference", *{unit for *_, unit in intervals}])
    columns = [Column(""), Column(title), Column(scale_title(*scale), fills=True, min_width=10)]
    rows = []
    for pair in combinations(range(len(names)), 2):
        label = " − ".join(names[number] for number in pair)
        rows.append(Row(" − ".join(map(marker, pair)), [label, *_difference(compared.pairs.get(pair), scale)]))
    return columns, rows + _solved_rows(compared, is_dark=is_dark)


def answer_texts(folder: RunFolder) -> list[str]:
    """Return the answer of each example of a run's round as text. Raises HarnessError if they cannot be read."""
    spec = folder.attack_spec()
    answers = load_answers(spec.round)
    return [] if answers is None else text_of_run(folder, spec).texts(answers)


def example_table(compared: Compared, answers: Sequence[str]) -> Table:
    """Return the examples that some runs solve and others miss, with the text of their answers if it is known.

    A run has missed only what it has attacked. Those that split the runs most evenly come first, and of these the ones
    that the first run does not solve.
    """
    solved, missed = compared.solved, compared.attacked & ~compared.solved
    differ: Ints = np.flatnonzero(solved.any(axis=0) & missed.any(axis=0))
    verdicts = np.where(solved, "✓", np.where(missed, "✗", "–"))
    imbalance = np.abs(solved.sum(axis=0) - missed.sum(axis=0))
    order = differ[np.lexsort((solved[0, differ], imbalance[differ]))]
    not_in_train = None if compared.is_not_in_train else compared.comparison.not_in_train
    not_in_train_ids = set() if not_in_train is None else set(not_in_train.ids.tolist())
    # More names than three would leave no room for the answer.
    names = compared.names if len(solved) <= 3 else map(marker, range(len(solved)))
    columns = [Column("example", is_right=True), *map(Column, names)]
    columns += [Column("answer" if answers else "", fills=True)]
    rows = []
    for position in order.tolist():
        id_ = int(compared.part.ids[position])
        marks: list[Cell] = [[(mark, _MARKS[mark])] for mark in verdicts[:, position].tolist()]
        note = "not in training rows  " if id_ in not_in_train_ids else ""
        answer = answers[id_] if id_ < len(answers) else ""
        rows.append(Row(str(id_), [[(str(id_), "bold")], *marks, [(note, "dim"), (answer, "")]]))
    return columns, rows


def setting_table(compared: Compared) -> Table:
    """Return the settings that are not the same for all runs; of what has a hash, equal versions have one number."""
    columns = [Column("setting", min_width=10), *(Column(name, min_width=8) for name in compared.names)]
    rows: list[Row] = []
    differing = compared.comparison.differing.items()
    # What was set for the attack comes first.
    for name, values in sorted(differing, key=lambda setting: not setting[0].startswith("params.")):
        label = _HASH_LABELS.get(name, name.removeprefix("params.").removeprefix("sha256."))
        if name.startswith(_HASHES):
            versions = [value for value in dict.fromkeys(values) if value]
            values = tuple(value and f"version {versions.index(value) + 1}" for value in values)
        rows.append(Row(name, [[(label, "bold")], *map(_value, values)], opens=name == SOURCE))
    return columns, rows


def _difference(pair: Contrast | None, scale: tuple[float, float]) -> list[Cell]:
    """Return the difference of a pair with its interval, in colour if that does not contain zero, and as a line."""
    if pair is None:
        return [[("no test", "warning")], ""]
    value, (low, high, _), _ = pair.difference
    meaning = "dim" if low <= 0 <= high else "bold good" if value > 0 else "bold bad"
    text = (format_score(value, is_signed=True), meaning), (f" {format_interval(low, high, is_signed=True)}", "dim")
    return [text, interval_bar(value, (low, high), scale=scale, colour=meaning)]


def _solved_rows(compared: Compared, *, is_dark: bool) -> list[Row]:
    """Return how many examples all, several or only one of the runs solve as parts of a bar; of two runs also the test.

    Only examples that all runs have attacked count.
    """
    solved, is_common = compared.solved, compared.attacked.all(axis=0)
    times, runs = solved.sum(axis=0), len(solved)
    # Different glyphs for a terminal without colours.
    parts = [("█", "both" if runs == 2 else "all", int((times == runs).sum()), "dim")]
    if runs > 2:
        parts.append(("▒", "several", int(((times > 1) & (times < runs) & is_common).sum()), "dim"))
    for number, alone in enumerate((solved & (times == 1) & is_common).sum(axis=1).tolist()):
        name = f"{'' if number else 'only '}{marker(number)}"
        parts.append(("▓░"[number % 2], name, alone, curve_colour(number, is_dark=is_dark)))
    total = max(1, sum(count for *_, count, _ in parts))
    rows: dict[str, Cell] = {
        "solved by": [
            ("solved by  ", "dim"),
            *((f"{name} {count:,}   ", meaning) for _, name, count, meaning in parts),
        ],
        "bar": lambda width: [(glyph * (width * count // total), meaning) for glyph, _, count, meaning in parts],
    }
    if runs == 2 and (pair := compared.pairs.get((0, 1))):
        p_value = (format_p_value(pair.mcnemar_p), ""), ("  exact, ignores overlap of examples", "dim")
        rows = {"McNemar": [("McNemar    ", "dim"), *p_value]} | rows
    if not is_common.all():
        rows["attacked"] = [(f"of the {is_common.sum():,} examples that all have attacked", "dim")]
    return [Row(key, [cell], spans=True) for key, cell in rows.items()]


def _name(number: int, run: ComparedRun, *, is_dark: bool) -> list[Span]:
    glyph, meaning = GLYPHS[run.status]
    status = [] if run.status.is_complete else [(f" {glyph} {run.status.words}", meaning)]
    colour = curve_colour(number, is_dark=is_dark)
    return [(f"{marker(number)} ", f"bold {colour}"), (_short(run), "bold"), *status]


def _short(run: ComparedRun) -> str:
    return run.id.partition("-")[0]


def _value(value: object) -> str:
    value = float(f"{value:.6g}") if isinstance(value, float) else value
    text = "–" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
    return shorten_middle(shorten(text, 400), _MAX_VALUE)
