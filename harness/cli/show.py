"""`harness show`: print what a name stands for, whatever it is."""

from pathlib import Path

import typer
from typer import Argument, Option

from harness.analysis.candidates import load_example
from harness.cli.audit_findings import findings_as_json, findings_in_words, findings_of
from harness.cli.catalog import print_attack, print_round
from harness.cli.descriptions import describe, describe_example, run_as_json, token_probabilities
from harness.cli.options import RUN_HELP, Attacks, Json, names_to_show
from harness.cli.output import print_json, sanitize
from harness.cli.parents import print_sweep, print_tuning
from harness.cli.records import all_record_ids, find_record
from harness.cli.watching import log_lines
from harness.core.errors import HarnessError, UsageError, unknown_name
from harness.core.rounds import Round, built_in_rounds, load_round
from harness.plugins.discovery import AttackFile, attack_named, find_attacks
from harness.runs.folder import RunFolder
from harness.runs.specs import AuditSpec
from harness.sweeps.record import Sweep
from harness.sweeps.tuning import Tuning


def show(
    name: str = Argument(
        ...,
        metavar="NAME",
        help=f"{RUN_HELP} Or a tuning, a sweep, an attack, a round, or the TOML file of a round.",
        autocompletion=names_to_show,
        show_default=False,
    ),
    log: bool = Option(False, "--log", help="Run or audit: print the worker's log."),
    example: int | None = Option(None, metavar="ID", help="Run: show one example, its answer and candidates."),
    probabilities: bool = Option(
        False, "--probabilities", help="With --example: score each token with the target, on the CPU."
    ),
    redact: bool = Option(False, "--redact", help="Audit: replace text with its length and hash."),
    baseline: str | None = Option(
        None, metavar="SETTING", help="Sweep: compare with this setting.  [default: that of the sweep]"
    ),
    attacks: Attacks = None,
    json: Json = False,
) -> None:
    """Show a run, audit, tuning, sweep, attack or round.

    Prints what a run was given, how it went and its score, and the findings of an audit so far; the recall of each
    setting of a tuning or a sweep; the parameters of an attack; the rules and files of a round.
    """
    if probabilities and example is None:
        raise typer.BadParameter("name an example with --example.", param_hint="--probabilities")
    named = _named(name, attacks)
    is_run = isinstance(named, RunFolder)
    is_audit = isinstance(named, RunFolder) and isinstance(named.spec(), AuditSpec)
    for option, is_given, applies in (
        ("--log", log, is_run),
        ("--example", example is not None, is_run),
        ("--redact", redact, is_audit),
        ("--baseline", baseline is not None, isinstance(named, Sweep)),
    ):
        if is_given and not applies:
            raise typer.BadParameter(f"it does not apply to {sanitize(name)}.", param_hint=option)
    if isinstance(named, Round):
        print_round(named, json=json)
    elif isinstance(named, AttackFile):
        print_attack(named, json=json)
    elif isinstance(named, Tuning):
        print_tuning(named, json=json)
    elif isinstance(named, Sweep):
        print_sweep(named, baseline=baseline, json=json)
    elif log:
        lines = list(log_lines(named, follow=False))
        print_json({"run": named.id, "lines": lines}) if json else print("\n".join(map(sanitize, lines)))
    elif example is not None:
        _print_example(named, example, probabilities, json=json)
    elif is_audit:
        _print_audit(named, redact=redact, json=json)
    else:
        print_json(run_as_json(named)) if json else print(describe(named))


def _named(name: str, attacks: Path | None) -> RunFolder | Tuning | Sweep | AttackFile | Round:
    """Return what `name` stands for; with a directory of attacks, an attack.

    Raises HarnessError if it stands for nothing, for a round and an attack, or for several records.
    """
    if attacks is not None:
        return attack_named(name, attacks)
    is_round = name.endswith(".toml") or "/" in name or name.partition(":")[0] in built_in_rounds()
    known = [attack.name for attack in find_attacks()]
    if is_round and name in known:
        raise HarnessError(f"{name} is a round and an attack. Name the round's TOML file, or --attacks DIR.")
    if is_round:
        return load_round(name)
    if name in known:
        return attack_named(name)
    try:
        return find_record(name)
    except UsageError:
        raise unknown_name("name", name, [*all_record_ids(), *known, *built_in_rounds()], see="harness list") from None


def _print_example(folder: RunFolder, id_: int, probabilities: bool, *, json: bool) -> None:
    example = load_example(folder, id_)
    scored = token_probabilities(folder, example) if probabilities else None
    if json:
        print_json(example.as_json() | ({} if scored is None else {"probabilities": scored}))
    else:
        print(describe_example(folder, example, scored))


def _print_audit(folder: RunFolder, *, redact: bool, json: bool) -> None:
    """Print the record of an audit and its findings so far; an audit that has not begun has none."""
    findings = findings_of(folder, redact=redact) if folder.store.exists() else None
    if json:
        print_json(run_as_json(folder) | {"findings": None if findings is None else findings_as_json(findings)})
    else:
        print("\n\n".join([describe(folder), *([] if findings is None else [findings_in_words(findings)])]))
