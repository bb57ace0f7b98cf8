"""The objects that commands print with `--json`, in the order of their page."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.analysis.candidates import Example
from harness.analysis.comparison import Comparison
from harness.analysis.sweep_results import SweepResults
from harness.cli import bundle, catalog, data, descriptions, doctor, export, lists, new, runs, show, sweep, tune
from harness.cli import score as score_command
from harness.core.findings import Findings
from harness.core.scoring import Score
from harness.corpora import round_files
from harness.runs.summary import RunSummary
from harness.submit.leaderboard import Entry
from harness.submit.verdict import Verdict
from tests.reference.objects import Key, Section, Source, Type, faults_in, tables_of


def _list(key: str, maker: Source, meaning: str) -> tuple[Key]:
    return (Key(key, Type("object[]", maker), meaning),)


SECTIONS = (
    Section(
        "Run",
        (RunSummary,),
        "Printed by `run`, `watch`, `stop`, `resume`, `demo` and `bundle rerun`, and by `audit … --detach`.",
    ),
    Section("`harness show RUN`", (RunSummary, descriptions.run_as_json)),
    Section("`harness show AUDIT`", (RunSummary, descriptions.run_as_json, show._print_audit)),
    Section("`harness show RUN --log`", (show._print_log,)),
    Section("`harness show RUN --example ID`", (Example,)),
    Section("`harness show RUN --example ID --probabilities`", (Example, show._print_example)),
    Section("`harness run --dry-run`", (descriptions.plan_as_json,)),
    Section("`harness list runs`", _list("runs", RunSummary, "Runs, newest first.")),
    Section("`harness list audits`", _list("audits", RunSummary, "Audits, newest first.")),
    Section("`harness list queue`", _list("queue", RunSummary, "Waiting runs, in the order in which they start.")),
    Section(
        "`harness list deleted`",
        _list("deleted", lists._deletion_as_json, "What can be restored, the last deleted first."),
    ),
    Section("`harness runs rm`", (runs.rm,)),
    Section("`harness runs restore`", (runs.restore,)),
    Section("`harness runs note`", (runs.note,)),
    Section("`harness runs tag`", (runs.tag,)),
    Section("`harness runs queue`", _list("queue", RunSummary, "Waiting runs, in their new order.")),
    Section("`harness export`", (export._export_to_file,)),
    Section("`harness export --trials`", (export._export_trials,)),
    Section("`harness export --mlflow`", (export._export_to_mlflow,)),
    Section("`harness list attacks`", _list("attacks", catalog.attack_as_json, "Attacks, by name.")),
    Section("`harness show ATTACK`", (catalog.attack_as_json, catalog.print_attack)),
    Section("`harness new attack`", (new.write_attack,)),
    Section(
        "`harness tune`", (show.print_tuning,), "Also printed by `harness show TUNING` and `harness resume TUNING`."
    ),
    Section("`harness tune --detach`", (tune._start,), "Also printed by `harness stop TUNING`."),
    Section("`harness list tunings`", _list("tunings", lists._tuning_as_json, "Tunings, newest first.")),
    Section("`harness sweep --dry-run`", (sweep._print_plan,)),
    Section("`harness sweep`", (sweep._print_result,), "Printed at the end, also by `harness resume SWEEP`."),
    Section("`harness show SWEEP`", (SweepResults,)),
    Section("`harness list sweeps`", _list("sweeps", lists._sweep_as_json, "Sweeps, newest first.")),
    Section("`harness score`", (Score, score_command._print_score)),
    Section(
        "`harness score` without answers",
        (score_command._print_check,),
        "Printed for a submission that breaks the rules of the round, and for each submission to a blind round.",
    ),
    Section("`harness compare`", (Comparison,)),
    Section("`harness report`", (export.report,)),
    Section("`harness bundle create`", (bundle._write,), "Also printed by `harness bundle code`."),
    Section("`harness bundle create --check`", (bundle._print_checks,)),
    Section("`harness bundle verify`", (Verdict,)),
    Section("`harness bundle rank`", (bundle.rank,)),
    Section(
        "Leaderboard entry",
        (Entry,),
        "The keys are also the columns of `--csv`, in which each interval has two columns, such as "
        "`recall_interval_low` and `recall_interval_high`.",
    ),
    Section("`harness list rounds`", _list("rounds", catalog.round_as_json, "Built-in rounds.")),
    Section("`harness show ROUND`", (catalog.round_as_json, catalog._rules, catalog.print_round)),
    Section(
        "`harness new round`",
        (round_files.Origin, round_files._card, round_files.write_round),
        "The data card, which `card.json` also contains.",
    ),
    Section("`harness data status`", (data._status_as_json,)),
    Section("`harness data status` without a round", _list("rounds", data._status_as_json, "Built-in rounds.")),
    Section("`harness data overlap`", (data.show_overlap,)),
    Section("`harness data fetch`", (data.fetch_data,)),
    Section("`harness data example`", (data.write_example_data,)),
    Section("`harness doctor`", (doctor.doctor,)),
    Section("`harness doctor --bench`", (doctor.measure_speed,)),
    Section(
        "`harness audit`",
        (Findings,),
        "Every audit prints these keys, and facts about itself by name, such as `is_complete`. "
        "[Measures](measures.md) lists the names of the measures.",
        has_more=True,
    ),
)


def objects() -> Iterator[str]:
    """Yield the sections of all objects."""
    yield from tables_of(SECTIONS)


def faults_of(printed: Mapping[str, Any], section: Section) -> list[str]:
    """Return what is wrong with an object that should be that of a section."""
    without_version = {name: value for name, value in printed.items() if name != "schema_version"}
    return faults_in(without_version, section.keys, has_more=section.has_more)


def require_section(printed: Mapping[str, Any]) -> None:
    """Assert that an object has the keys and types of any section."""
    section, faults = min(((one, faults_of(printed, one)) for one in SECTIONS), key=lambda pair: len(pair[1]))
    assert not faults, f"not in docs/reference/json.md; the most similar object is {section.heading}: {faults}"


def section_named(heading: str) -> Section:
    """Return the section with this heading."""
    return next(section for section in SECTIONS if section.heading == heading)
