"""The README and the pages of docs/ that no test walks through: their links, their commands and their attack."""

import re
import shlex
from functools import cache
from pathlib import Path

import click
import pytest

from harness.audits.registry import AUDITS
from harness.cli.app import PANELS, load_command
from harness.plugins.discovery import find_attacks
from tests.functional.machine import ROOT, Machine, kill_processes_that_name
from tests.functional.walkthrough import require_output, steps_in, walk_through
from tests.unit.cli.test_app import commands

README = ROOT / "README.md"
ALL_PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "submissions" / "README.md"]
PAGES = [
    README,
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *sorted((ROOT / "docs" / "explanation").glob("*.md")),
    *sorted((ROOT / "docs" / "development").glob("*.md")),
]
_BLOCK = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
_PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b")
_INLINE = re.compile(r"(?<!`)`(harness [^`]+)`")


def links_in(text: str) -> list[str]:
    """Return the links and pictures of a page, outside code: `[..](LINK)`, `src="LINK"` and definitions."""
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]+`", "", text)
    links = re.findall(r"\]\(<?([^)\s>]+)", text) + re.findall(r"\b(?:src|srcset|href)=\"([^\"]+)\"", text)
    return links + re.findall(r"^\[[^\]]+\]: *(\S+)", text, re.MULTILINE)


def anchors_of(text: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead nowhere."""
    broken = []
    for link in links_in(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if re.match(r"https?://", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_relative_links_and_pictures_of_a_page_exist(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A heading: two words\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#a-heading-two-words) [c](https://x.example) [d](gone.md) [e](other.md#gone)\n"
        '![f](gone.svg) [g](/other.md) `[h](gone.md)`\n```sh\n[i](gone.md)\n```\n<img src="gone.png">\n[j]: gone.txt\n'
    )
    assert broken_links(page) == ["gone.md", "other.md#gone", "gone.svg", "/other.md", "gone.png", "gone.txt"]


def test_the_readme_leads_into_the_clone() -> None:
    links = links_in(README.read_text(encoding="utf-8"))
    assert len([link for link in links if link.startswith("docs/")]) >= 20
    pictures = {link for link in links if link.endswith((".svg", ".png"))}
    names = ("first-run-recording", "compare-120-light", "compare-120-dark")
    assert pictures == {f"docs/pictures/{name}.svg" for name in names}


def test_the_first_screenful_of_the_readme_has_the_two_commands() -> None:
    begin = "\n".join(README.read_text(encoding="utf-8").splitlines()[:30])
    assert "\nmake demo\nmake test\n" in begin and "first-run-recording.svg" in begin and "git clone" in begin


def test_the_words_in_capitals_in_the_readme_are_explained() -> None:
    text = README.read_text(encoding="utf-8")
    without_comments = "\n".join(
        re.sub(r" #.*", "", line) for block in _BLOCK.findall(text) for line in block.splitlines()
    )
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    words = set(_PLACEHOLDER.findall(without_comments)) - {"ADDRESS"}
    assert words == {"RUN", "TEXTS", "UNSEEN", "MODEL", "BASE", "ADAPTER"}
    assert {word for word in words if not re.search(rf"`{word}`", prose)} == set()
    assert "ADDRESS extraction-harness     # the address you were given" in text


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_blocks_of_the_readme_run_as_they_are(tmp_path: Path) -> None:
    steps = [
        step
        for step in steps_in(README.read_text(encoding="utf-8"))
        if step.script.startswith("harness ") and not _PLACEHOLDER.search(step.script)
    ]
    assert len(steps) == 7
    try:
        printed = walk_through("\n".join(f"```sh\n{step.script}```" for step in steps), tmp_path)
    finally:
        kill_processes_that_name(str(tmp_path))
    assert sum(len(step.outputs) for step in steps) == 2
    for step, output in zip(steps, printed, strict=True):
        for shown in step.outputs:
            require_output(shown, output)
    pages = ("sequence/index.html", "forgotten/index.html", "board.html")
    assert all((tmp_path / "work" / page).is_file() for page in pages)


def test_the_readme_counts_attacks_and_audits() -> None:
    attacks = [one for one in find_attacks() if one.origin == "built-in" and one.uses_target and not one.control]
    assert len(AUDITS) == 6
    assert f"{len(attacks)} attacks, six audits" in README.read_text(encoding="utf-8")


def commands_in(text: str, *, has_inline: bool = True) -> list[str]:
    """Return the commands of harness in a page: in blocks of commands, without comments, and in a line of text."""
    lines = re.sub(r"^\$ ", "", "\n".join(_BLOCK.findall(text)), flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    parts = [part.strip() for line in lines for part in re.split(r"\||&&|;| #|^#.*", line)]
    if has_inline:
        parts += [" ".join(part.split()) for part in _INLINE.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL))]
    starts = ("harness ", "ssh ")
    return [part[part.index("harness ") + 8 :] for part in parts if part.startswith(starts) and "harness " in part]


def fault_of(command_line: str, *, is_whole: bool = False) -> str:
    """Return what is wrong with a command, "" for nothing: an unknown name, or a missing argument in a whole one."""
    words = [word for word in shlex.split(command_line) if word != "…"]
    known = {name for commands in PANELS.values() for name in commands}
    if words[0].isupper() or words[0].startswith("-"):
        return "" if words[0] in ("NAME", "--help", "--version") else f"unknown: {words[0]}"
    if words[0] not in known:
        return f"unknown command: {words[0]}"
    command = load_command(words[0])
    rest = words[1:]
    while isinstance(command, click.Group) or hasattr(command, "commands"):
        if rest and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        else:
            return f"unknown command: {words[0]} {' '.join(rest[:1])}".strip() if rest else ""
    options = {name for parameter in command.get_params(click.Context(command)) for name in parameter.opts}
    unknown = [word for word in rest if re.match(r"--?[a-zA-Z]", word) and word.partition("=")[0] not in options]
    if is_whole and not unknown:
        try:
            command.make_context(words[0], rest)
        except Exception as error:
            # Another error is about a name in capitals, which stands for a value.
            if type(error).__name__ == "MissingParameter":
                return str(error)
    return f"unknown option: {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert {command: fault for command in commands_in(text) if (fault := fault_of(command))} == {}
    whole = commands_in(text, has_inline=False)
    assert {command: fault for command in whole if (fault := fault_of(command, is_whole=True))} == {}


def test_an_unknown_command_or_option_is_found() -> None:
    block = "```sh\nharness runn greedy  # a comment\nharness run greedy --sets a=1 | head\n```\n"
    text = f"{block}```console\n$ harness lst\n```\nand `harness bundle create RUN --chek`."
    assert [fault_of(command) for command in commands_in(text)] == [
        "unknown command: runn",
        "unknown option: --sets",
        "unknown command: lst",
        "unknown option: --chek",
    ]
    assert (
        fault_of("bundle create RUN --check")
        == fault_of("audit sequence X --control Y")
        == fault_of("list runs --tag a")
        == ""
    )
    assert fault_of("runs queue") == "" and fault_of("runs queue", is_whole=True) == "Missing parameter: run"


def unknown_options_in(text: str) -> list[str]:
    """Return the options in lines of text that do not exist: `--option`, and those of a command."""
    unknown = []
    lines = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)
    for words in re.findall(r"(?<!`)`([^`]+)`(?!`)", lines):
        command = " ".join(words.removeprefix("harness ").split())
        is_command = command.split(" ")[0] in {name for names in PANELS.values() for name in names}
        fault = fault_of(command) if is_command and " -" in command else ""
        if words.startswith("--") or fault.startswith("unknown command"):  # such as `audit AUDIT --out`
            unknown += sorted(set(re.findall(r"(?<!\S)--[a-z][\w-]*", words)) - all_options())
        elif fault:
            unknown.append(fault)
    return unknown


@cache
def all_options() -> set[str]:
    """Return the options of all commands, and those of the programs that measure or train."""
    parameters = [parameter for _, command in commands() for parameter in command.get_params(click.Context(command))]
    programs = [path for folder in ("bench", "demo_target") for path in (ROOT / "tests" / folder).rglob("*.py")]
    measuring = {name for path in programs for name in re.findall(r"\"(--[\w-]+)\"", path.read_text(encoding="utf-8"))}
    return measuring | {name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_options_of_a_page_exist(page: Path) -> None:
    assert unknown_options_in(page.read_text(encoding="utf-8")) == []


def test_an_unknown_option_is_found() -> None:
    text = "`--prefix` and `--prefix-tokens 5 --sufix`, `score --plots`, `harness run --sett`, `pip --x`\n"
    unknown = ["--prefix", "--sufix", "unknown option: --plots", "unknown option: --sett"]
    assert unknown_options_in(f"{text}```sh\n`--y`\n```\n") == unknown
    assert "--json" in all_options() and "--home" in all_options()


def test_every_page_is_checked_for_commands() -> None:
    assert sum(len(commands_in(page.read_text(encoding="utf-8"))) for page in PAGES) > 150


@pytest.mark.slow
def test_the_attack_in_the_docs_runs_on_the_demo(machine: Machine) -> None:
    page = (ROOT / "docs" / "how-to" / "write-an-attack.md").read_text(encoding="utf-8")
    source = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    folder = machine.folder / "attacks"
    folder.mkdir()
    (folder / "blunt.py").write_text(source)
    summary = machine.json("run", "blunt", "--round", "demo", "--set", "drop=5", "--limit", "40")
    assert summary["status"] == "finished"
    assert summary["rows"] == 40
    assert summary["recall_at_cap"] > 0
