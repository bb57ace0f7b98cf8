"""`harness show`: print what a name stands for, whatever it is."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from harness.analysis import sweep_tables as tables
from harness.analysis.candidates import load_example
from harness.analysis.sweep_results import SweepResults, sweep_results
from harness.cli.audit_findings import findings_in_words, findings_of
from harness.cli.catalog import print_attack, print_round
from harness.cli.completion import name_argument, names_to_show
from harness.cli.descriptions import describe, describe_example, run_as_json, token_probabilities
from harness.cli.options import RUN_HELP, Attacks, Json
from harness.cli.output import align_columns, print_json, sanitize, say, table_section
from harness.cli.records import Kind, all_record_ids, find_record, is_of_kind
from harness.cli.watching import log_lines
from harness.core.errors import HarnessError, UsageError, unknown_name
from harness.core.rounds import Round, built_in_rounds, load_round
from harness.core.spec import JobSpec
from harness.core.text import format_score
from harness.plugins.discovery import AttackFile, attack_named, find_attacks
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec, AuditSpec
from harness.sweeps.record import SWEEPS, Sweep
from harness.sweeps.tuning import Setting, Tuning, best_of, runs_of, searched_space, settings_tried


def show(
    name: Annotated[
        str,
        name_argument(
            "NAME", f"{RUN_HELP} Or a tuning, a sweep, an attack, a round, or the TOML file of a round.", names_to_show
        ),
    ],
    log: bool = Option(False, "--log", help="For a run or audit: print the worker's log."),
    example: int | None = Option(None, metavar="ID", help="For a run: show one example, its answer and candidates."),
    probabilities: bool = Option(
        False, "--probabilities", help="With --example: score each token with the target, on the CPU."
    ),
    redact: bool = Option(False, "--redact", help="For an audit: replace text with its length and hash."),
    baseline: str | None = Option(
        None, metavar="SETTING", help="For a sweep: setting to compare with.  [default: the sweep's baseline]"
    ),
    attacks: Attacks = None,
    json: Json = False,
) -> None:
    """Show a run, audit, tuning, sweep, attack or round.

    For a run, prints its settings, progress and score. For an audit, prints its findings so far. For a tuning or a
    sweep, prints the recall of each setting. For an attack, prints its parameters. For a round, prints its rules and
    files.
    """
    if probabilities and example is None:
        raise typer.BadParameter("name an example with --example.", param_hint="--probabilities")
    options: tuple[tuple[str, bool, Kind], ...] = (
        ("--log", log, JobSpec),
        ("--example", example is not None, AttackSpec),
        ("--redact", redact, AuditSpec),
        ("--baseline", baseline is not None, SWEEPS),
    )
    kinds = {option: kind for option, is_chosen, kind in options if is_chosen}
    thing = _find(name, attacks, next(iter(kinds.values()), None))
    for option, kind in kinds.items():
        if not is_of_kind(thing, kind):
            raise typer.BadParameter(f"it does not apply to {sanitize(name)}. Remove it.", param_hint=option)
    if isinstance(thing, Round):
        print_round(thing, json=json)
    elif isinstance(thing, AttackFile):
        print_attack(thing, json=json)
    elif isinstance(thing, Tuning):
        print_tuning(thing, json=json)
    elif isinstance(thing, Sweep):
        print_sweep(thing, baseline=baseline, json=json)
    elif log:
        _print_log(thing, json=json)
    elif example is not None:
        _print_example(thing, example, probabilities, json=json)
    elif is_of_kind(thing, AuditSpec):
        _print_audit(thing, redact=redact, json=json)
    else:
        print_json(run_as_json(thing)) if json else print(describe(thing))


def _find(name: str, attacks: Path | None, kind: Kind | None) -> RunFolder | Tuning | Sweep | AttackFile | Round:
    """Return the thing called `name`; with a directory of attacks, an attack. `latest` is the newest of its `kind`.

    Raises HarnessError if it stands for nothing, for a round and an attack, or for several records.
    """
    if attacks is not None:
        return attack_named(name, attacks)
    is_round = name.endswith(".toml") or "/" in name or name.partition(":")[0] in built_in_rounds()
    attack_names = [attack.name for attack in find_attacks()]
    if is_round and name in attack_names:
        raise HarnessError(f"{name} is a round and an attack. Name the round's file, or give --attacks for the attack.")
    if is_round:
        return load_round(name)
    if name in attack_names:
        return attack_named(name)
    try:
        return find_record(name, kind)
    except UsageError:
        names = [*all_record_ids(), *attack_names, *built_in_rounds()]
        raise unknown_name("name", name, names, see="harness list KIND") from None


def _print_log(folder: RunFolder, *, json: bool) -> None:
    """Print the lines of the worker's log.

    Keys:
        run (string): Id of the run.
        lines (string[]): Lines of the log. They may contain control characters.
    """
    lines = list(log_lines(folder, follow=False))
    print_json({"run": folder.id, "lines": lines}) if json else print("\n".join(map(sanitize, lines)))


def _print_example(folder: RunFolder, id_: int, probabilities: bool, *, json: bool) -> None:
    """Print an example, with the probabilities of its tokens if they are asked for.

    Keys:
        probabilities (token_probabilities): Probabilities of the tokens.
    """
    example = load_example(folder, id_)
    scored = token_probabilities(folder, example) if probabilities else None
    if json:
        print_json(example.as_json() | ({} if scored is None else {"probabilities": scored}))
    else:
        print(describe_example(folder, example, scored))


def _print_audit(folder: RunFolder, *, redact: bool, json: bool) -> None:
    """Print the record of an audit and its findings so far.

    Keys:
        findings (object?): Findings so far, as `harness audit` prints them. Null if the audit has not begun.
    """
    findings = findings_of(folder, redact=redact) if folder.store.exists() else None
    if json:
        print_json(run_as_json(folder) | {"findings": None if findings is None else findings.as_json()})
    else:
        print("\n\n".join([describe(folder), *([] if findings is None else [findings_in_words(findings)])]))


def print_sweep(sweep: Sweep, *, baseline: str | None = None, json: bool) -> None:
    """Print what a sweep has found so far: recalls, and differences from the baseline."""
    results = sweep_results(sweep, baseline=baseline)
    if json:
        print_json(results.as_json())
        return
    print("\n\n".join(_sections(results)))
    for note in results.notes:
        say(sanitize(note))


def _sections(results: SweepResults) -> list[str]:
    sweep = results.sweep
    started = f"sweep {sweep.id}, {results.finished:,} of {len(sweep.runs):,} runs finished"
    sections = [started]
    sections += [table_section(name, tables.settings_table(rows)) for name, rows in tables.places(results)]
    if results.differences:
        heading = tables.differences_heading(results)
        note = tables.differences_note(results)
        sections.append(f"{table_section(heading, tables.differences_table(results))}\n{note}")
    return sections


def print_tuning(tuning: Tuning, *, json: bool) -> None:
    """Print the settings that a tuning has tried, with their recall on each fold.

    The searched parameters are those of the attack as it ran: each run has a copy of its source.

    Keys:
        id (string): Id of the tuning.
        attack (string): Name of the attack.
        round (string): Name of the round.
        settings (object[]): Settings that were tried.
            params (object): Values of the searched parameters.
            recall_at_cap (number?): Mean recall over its folds. Null if a run has none, such as a crashed one.
            runs (object[]): One run per fold.
                id (string): Id of the run.
                fold (string): Fold of the round, such as `fold0of5`.
                status (string?): Status of the run. Null if there is no record of it.
                recall_at_cap (number?): Recall at the error cap.
        best (object?): Parameters of the best setting.
    """
    runs = runs_of(tuning.id)
    space = searched_space(tuning, runs)
    tried = settings_tried(space, runs)
    best = best_of(tried)
    if json:
        print_json(
            {
                "id": tuning.id,
                "attack": tuning.request.attack,
                "round": tuning.request.round,
                "settings": [_setting_as_json(setting) for setting in tried],
                "best": None if best is None else best.params,
            }
        )
        return
    if not tried:
        say(f"{tuning.id} has no runs. `harness resume {tuning.id}` continues it.")
        return
    print(align_columns([(*space, *tuning.folds, "recall", ""), *(_row(setting, tuning.folds) for setting in tried)]))


def _row(setting: Setting, folds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a setting, its recall on each fold (empty if not tried), their mean, and what is missing."""
    recalls = {run.fold: format_score(run.recall) for run in setting.runs}
    return (
        *(sanitize(str(value)) for value in setting.params.values()),
        *(recalls.get(fold, "") for fold in folds),
        format_score(setting.recall),
        setting.missing_folds(folds),
    )


def _setting_as_json(setting: Setting) -> dict[str, Any]:
    return {
        "params": setting.params,
        "recall_at_cap": setting.recall,
        "runs": [
            {"id": run.folder.id, "fold": run.fold, "status": run.status, "recall_at_cap": run.recall}
            for run in setting.runs
        ],
    }
