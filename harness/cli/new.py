"""`harness new`: write a new attack, or draw a round from a corpus."""

import re
import shlex
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer import Argument, Option

from harness.cli.conversion import find_gguf
from harness.cli.options import Force, Json, Seed, budget_seconds, make_directory, usage_errors
from harness.cli.output import align_columns, print_json, sanitize, say
from harness.cli.progress import ProgressBars
from harness.cli.resolving import find_target, name_hidden_directory, usable_device
from harness.cli.typer_classes import CommandLine, Without
from harness.core.errors import HarnessError, UsageError
from harness.core.options import Options, option
from harness.core.paths import expand_home
from harness.core.run_request import DeviceOptions
from harness.core.spec import BUILT_IN_TARGETS
from harness.core.times import format_duration, parse_moment
from harness.core.version import __version__
from harness.plugins.scaffold import new_attack

if TYPE_CHECKING:
    from harness.corpora.contexts import ContextFinder
    from harness.corpora.making import Rules
    from harness.corpora.opening import Corpus, OpenedCorpus
    from harness.engine.resolving import ResolvedTarget

_SECONDS_BETWEEN_LINES = 5.0
app = CommandLine(name="new", help="Write a new attack, or draw a round from a corpus.", no_args_is_help=True)


class CorpusOptions(Options):
    """The options for reading a corpus."""

    heading: ClassVar[str] = "Corpus"

    field: str | None = option(None, unset="text", description="Field or column with the text.")
    keep_line_ends: bool = option(False, description="Do not turn CR LF and CR into LF.")
    tokenizer: Path | None = option(
        None, metavar="FILE", unset="in its directory", description="The target's tokenizer.json."
    )
    split: str | None = option(None, description="Split of an Arrow data set.")
    end_of_text: str = option("<|endoftext|>", metavar="TOKEN", description="Token that ends a document.")


class SizeOptions(Options):
    """The options for the examples of a round."""

    heading: ClassVar[str] = "Size and selection"

    prefix_tokens: int = option(50, ge=1, le=4096, description="Prefix length.")
    suffix_tokens: int = option(50, ge=1, le=4096, description="Suffix length.")
    train: int = option(15_000, ge=0, description="Training examples.")
    val: int = option(1_000, ge=0, description="Validation examples.")
    test: int = option(1_000, ge=0, description="Test examples.")
    strata: str = option("1", metavar="N,…", description="Smallest number of copies in each stratum, such as 1,2,10.")
    extractable: bool = option(
        False, description="Only examples that the target completes by greedy decoding, given up to 450 tokens."
    )


def make_round(
    reading: CorpusOptions,
    corpus: Path = Argument(..., metavar="CORPUS", help="File or directory: texts, records, Parquet, Arrow or tokens."),
    out: Path = Option(..., "--out", "-o", metavar="DIR", help="Directory for the round."),
    target: str = Option(..., "--target", metavar="MODEL", help="Model to attack: hub id, directory or GGUF file."),
    name: str | None = Option(None, help="Name of the round.  [default: that of the directory]"),
    *,
    size: SizeOptions,
    loading: Annotated[DeviceOptions, Without("dtype")],
    answers_out: Path | None = Option(None, metavar="DIR", help="Directory for the test answers.  [default: --out]"),
    budget: str = Option("24h", metavar="DURATION", help="Wall-clock limit, such as 24h or 90m."),
    title: str | None = Option(None, help="Title of the contest, on one line.  [default: none]"),
    closes: str | None = Option(
        None, metavar="DATE", help="Deadline: 2026-12-20 (its end Anywhere on Earth), or 2026-12-20T18:00+01:00."
    ),
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw a round from a corpus.

    Draws sequences whose prefix has one continuation in the whole corpus and whose suffix is not trivial. Sequences
    that share 32 tokens are in the same split. Writes arrays, a TOML file for each attacked split, pointers into the
    corpus, a data card and a page for the teams. To continue after an interruption, run the same command again.
    """
    from harness.corpora.documents import require_fields
    from harness.corpora.making import Rules
    from harness.corpora.opening import Corpus, hold_lock

    sizes = {split: wanted for split in ("train", "val", "test") if (wanted := getattr(size, split))}
    if not size.val and not size.test:
        raise UsageError("--val and --test are both 0, so nothing would be attacked. Make one of them larger.")
    budget_seconds(budget)
    with usage_errors("--closes"):
        parse_moment("1970-01-01" if closes is None else closes)
    if title is not None and not (title.strip() and title.isprintable()):
        raise typer.BadParameter("expected one line of printable text.", param_hint="--title")
    require_fields(reading.field, [corpus])
    rules = Rules(sizes, size.prefix_tokens, size.suffix_tokens, _strata(size.strata), seed=seed)
    name = _round_name(name, out)
    compute = loading.changed(device=usable_device(loading.device))
    answers = answers_out
    if answers is not None and answers.resolve() == out.resolve():
        answers = None
    _require_free(corpus, out, answers, name, force=force)
    name_hidden_directory(target)
    if target not in BUILT_IN_TARGETS and (expand_home(target).is_dir() or find_gguf(target) is not None):
        # A relative path would be relative to the round's file.
        target = str(expand_home(target).resolve())
    resolved = find_target(target) if size.extractable or reading.tokenizer is None else None
    tokenizer = reading.tokenizer or _tokenizer_of(resolved)
    source = Corpus(corpus, tokenizer, reading.field, reading.split, reading.end_of_text, reading.keep_line_ends)
    make_directory(out)
    try:
        with hold_lock(out):
            identity = {"name": name, "target": target, "budget": budget}
            contest = {name: text for name, text in (("title", title), ("closes", closes)) if text is not None}
            card = _make(
                source, rules, out, answers, resolved if size.extractable else None, compute, identity, contest
            )
    except KeyboardInterrupt:
        say("interrupted. The tokens are kept, and the same command continues.")
        raise typer.Exit(130) from None
    except OSError as error:
        raise HarnessError(f"cannot read or write {error.filename or out}: {error.strerror or error}.") from None
    if json:
        print_json(card)
        return
    _print_card(card, out)


def _require_free(corpus: Path, out: Path, answers: Path | None, name: str, *, force: bool) -> None:
    """Raise HarnessError if a directory is inside the corpus, or has files that the round would replace."""
    from harness.corpora.opening import is_interrupted
    from harness.corpora.round_files import CARD, existing_files

    for word, folder in (("--out", out), ("--answers-out", answers)):
        if folder is not None and corpus.is_dir() and folder.resolve().is_relative_to(corpus.resolve()):
            raise HarnessError(f"{word} {folder} is inside the corpus. Choose another directory.")
    existing_paths = existing_files(out, name, answers)
    if is_interrupted(out) and out / CARD not in existing_paths:
        # An earlier command wrote those in the directory, and did not end.
        existing_paths = [path for path in existing_paths if path.parent != out]
    if existing_paths and not force:
        raise HarnessError(f"{existing_paths[0]} exists already. Use --force to replace it, or another directory.")


def _make(
    corpus: "Corpus",
    rules: "Rules",
    out: Path,
    answers: Path | None,
    target: "ResolvedTarget | None",
    compute: DeviceOptions,
    identity: dict[str, str],
    contest: dict[str, str],
) -> dict[str, Any]:
    """Make the round with a progress bar for each step, and return its data card.

    target: the model that completes every example, None if none has to.
    identity: name, target and budget of the round. contest: its title and deadline, if they were given.
    """
    from harness.corpora.making import ATTACKED, draw_examples
    from harness.corpora.opening import open_corpus, remove_work
    from harness.corpora.round_files import Origin, write_round

    with ProgressBars("percent", seconds_between_lines=_SECONDS_BETWEEN_LINES) as bars:
        show = _progress(bars)
        opened = open_corpus(corpus, out, lambda done, total: show("tokenize", done, total))
        finder = None if target is None else _context_finder(opened, rules, target, compute)
        whole = len(opened.stream.tokens)
        examples = draw_examples(
            opened.stream,
            rules,
            lambda number, done: show(f"draw, pass {number}", done, whole),
            None if finder is None else partial(finder.shortest, on_progress=partial(_show_completed, show)),
        )
    if not any(len(examples.splits[split].copies) for split in ATTACKED if split in examples.splits):
        removed = max(examples.counts, key=lambda name: examples.counts[name] if name != "drawn prefixes" else -1)
        raise HarnessError(
            f"no example can be drawn from {corpus.path}: of {examples.counts['drawn prefixes']:,} prefixes, most were "
            f"removed: {removed.removeprefix('removed, ')}. Shorten --prefix-tokens and --suffix-tokens, or "
            "change --strata."
        )
    origin = Origin(
        corpus=sanitize(corpus.path.resolve().name),
        vocabulary=opened.vocabulary,
        tokenizer_sha256=opened.tokenizer_sha256,
        contexts=() if finder is None else finder.contexts,
        target_sha256="" if target is None else target.weights_sha256,
        notes=opened.notes,
        harness_version=__version__,
        **identity,
    )
    card = write_round(out, answers, opened.stream, examples, rules, origin, contest)
    remove_work(out)
    return card


def _show_completed(show: Callable[[str, int, int], None], done: int, total: int) -> None:
    """Show the progress of the target's completions. Each pass over the corpus has another total."""
    show(f"complete {total:,} sequences", done, total)


def _context_finder(
    opened: "OpenedCorpus", rules: "Rules", target: "ResolvedTarget", compute: DeviceOptions
) -> "ContextFinder":
    """Load the target, and return the finder of contexts from which it completes sequences.

    Raises HarnessError if the target has another tokenizer, or a context that is too short.
    """
    from harness.core.policy import Policy
    from harness.core.rounds import Round
    from harness.corpora.contexts import ContextFinder, contexts_for
    from harness.engine.loading import load_target
    from harness.engine.resolving import (
        CONTEXT_KEYS,
        configured_number,
        require_capacity,
        require_round_vocabulary,
    )

    lengths = {"prefix_length": rules.prefix_length, "suffix_length": rules.suffix_length}
    round_ = Round(name="new", title="", prefix_file=Path(), vocabulary=opened.vocabulary, target=target.id, **lengths)
    require_capacity(target, round_)
    require_round_vocabulary(target, round_)
    limit = configured_number(target.path, CONTEXT_KEYS)
    contexts = contexts_for(rules.prefix_length, None if limit is None else limit - rules.suffix_length)
    loaded = load_target(
        target.path,
        device=compute.device,
        threads=compute.threads,
        prefix_length=contexts[-1],
        suffix_length=rules.suffix_length,
        vocabulary=opened.vocabulary,
    )
    return ContextFinder(
        opened.stream,
        rules.prefix_length,
        contexts,
        lambda tokens: loaded.sample(tokens, Policy(top_k=1)).suffixes,
        opened.folder / f"contexts-{target.weights_sha256[:16]}-{rules.prefix_length}-{rules.suffix_length}.npy",
    )


def _progress(bars: ProgressBars) -> Callable[[str, int, int], None]:
    """Return a function that shows the progress of a step; its lines have the ETA of the step."""
    started: dict[str, tuple[float, int]] = {}

    def show(step: str, done: int, total: int) -> None:
        start, before = started.setdefault(step, (time.monotonic(), done))
        rate = (done - before) / max(1e-9, time.monotonic() - start)
        eta = f", {format_duration((total - done) / rate)} left" if rate else ""
        bars.update(step, done, total, line=f"{step}: {done / max(1, total):.0%}{eta}")

    return show


def _print_card(card: dict[str, Any], out: Path) -> None:
    """Print what the round has, and the commands that use it."""
    print(f"{sanitize(card['name'])}: {card['corpus_documents']:,} documents, {card['corpus_tokens']:,} tokens")
    print(align_columns([(f"  {name}", f"{count:,}") for name, count in card["counts"].items()]))
    rows = []
    for split, facts in card["splits"].items():
        copies = "copies " + ", ".join(f"{stratum}: {count:,}" for stratum, count in facts["copies"].items())
        rows.append((f"  {split}", f"{facts['examples']:,} examples", f"{facts['clusters']:,} clusters", copies))
    print(align_columns(rows))
    for split, facts in card["splits"].items():
        if facts["examples"] < facts["wanted"]:
            say(f"{split}: found {facts['examples']:,} of {facts['wanted']:,} requested examples.")
    for note in card["notes"]:
        say(sanitize(note))
    attack = f"`harness run ATTACK --round {out / card['rounds'][0]}` attacks it."
    say(f"Files are in {out}, TEAMS.md is for the teams. {attack}")


def _strata(text: str) -> tuple[int, ...]:
    """Return the numbers of `--strata`. Raises UsageError if they are not ascending."""
    try:
        strata = tuple(int(part) for part in text.split(","))
    except ValueError:
        strata = ()
    if not strata or strata[0] < 1 or any(left >= right for left, right in pairwise(strata)):
        raise UsageError(f"--strata {text}: expected ascending numbers from 1 with commas, such as 1,2,10.")
    return strata


def _round_name(name: str | None, out: Path) -> str:
    """Return the name of the round. Raises UsageError if the rules of a round do not allow it."""
    valid_name = out.resolve().name if name is None else name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}", valid_name):
        raise UsageError(
            f"--name {sanitize(valid_name)}: expected a letter or digit, then at most 49 letters, digits, dots, dashes "
            "or underscores."
        )
    return valid_name


def _tokenizer_of(target: "ResolvedTarget | None") -> Path:
    """Return the tokenizer.json of a target. Raises HarnessError if it has none."""
    assert target is not None
    path = target.path / "tokenizer.json"
    if not path.is_file():
        raise HarnessError(f"{target.id} has no tokenizer.json. Name one with --tokenizer.")
    return path


app.command("round")(make_round)


@app.command("attack")
def write_attack(
    name: str = Argument(..., metavar="NAME", help="Lower-case letters, digits and underscores."),
    directory: Path = Option(Path("attacks"), "--dir", metavar="DIR", help="Where to write."),
    json: Json = False,
) -> None:
    """Write a new attack that runs as it is.

    Keys:
        attack (string): Name of the attack.
        path (string): The file written.
    """
    path = new_attack(name, directory)
    option = "" if directory.resolve() == Path("attacks").resolve() else f" --attacks {shlex.quote(str(directory))}"
    say(f"next: harness run {name} --round demo{option}")
    if json:
        print_json({"attack": name, "path": str(path.absolute())})
    else:
        print(path)
