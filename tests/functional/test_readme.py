"""The README and the pages of docs/ that no test walks through: their links, their commands and their attack."""

import re
import shlex
from pathlib import Path

import click
import pytest

from harness.audits.registry import AUDITS
from harness.cli.app import PANELS, load_command
from harness.cli.typer_classes import GroupWithDefault
from harness.plugins.discovery import find_attacks
from tests.functional.machine import ROOT, Machine

README = ROOT / "README.md"
REPOSITORY = "https://github.com/extraction-harness/extraction-harness"
SITE = "https://extraction-harness.github.io/extraction-harness"
PAGES = [
    README,
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *sorted((ROOT / "docs" / "explanation").glob("*.md")),
]
_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_INLINE = re.compile(r"(?<!`)`(harness [^`]+)`")


def test_the_readme_is_short() -> None:
    assert len(README.read_bytes()) <= 8192


def test_the_links_of_the_readme_lead_to_files() -> None:
    # Links are absolute, because the package index shows the README too.
    text = README.read_text(encoding="utf-8")
    inside = re.findall(re.escape(REPOSITORY) + r"/blob/main/([^\s)#]+)", text)
    inside += [f"docs/{page}.md" for page in re.findall(re.escape(SITE) + r"/([^\s)#]+)\.html", text)]
    pictures = re.findall(
        r"https://raw\.githubusercontent\.com/extraction-harness/extraction-harness/main/([^\s)]+)", text
    )
    assert len(inside) >= 10
    assert len(pictures) == 1
    assert [path for path in (*inside, *pictures) if not (ROOT / path).is_file()] == []
    assert re.findall(r"\]\((?!https://)[^)]*\)", text) == []
    defined, used = set(re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE)), re.findall(r"\]\[([^\]]*)\]", text)
    names = {name or shown for shown, name in re.findall(r"\[([^\]\[]+)\]\[([^\]]*)\]", text)}
    assert used and {name.lower() for name in names} == defined


def test_the_readme_counts_attacks_and_audits() -> None:
    attacks = [one for one in find_attacks() if one.origin == "shipped" and one.uses_target and not one.control]
    assert len(AUDITS) == 6
    assert f"{len(attacks)} attacks, six audits" in README.read_text(encoding="utf-8")


def commands_in(text: str) -> list[str]:
    """Return the commands of harness in a page: those of its blocks of `sh`, without comments, and those in a line."""
    lines = "\n".join(_BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    parts = [part.strip() for line in lines for part in re.split(r"\||&&|;| #|^#.*", line)]
    parts += [" ".join(part.split()) for part in _INLINE.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL))]
    starts = ("harness ", "uvx extraction-harness ", "ssh ")
    return [part[part.index("harness ") + 8 :] for part in parts if part.startswith(starts) and "harness " in part]


def fault_of(command_line: str) -> str:
    """Return what is wrong with a command, "" for nothing: an unknown command or an unknown option."""
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
        elif isinstance(command, GroupWithDefault):
            command = next(iter(command.commands.values()))
        else:
            break
    options = {name for parameter in command.get_params(click.Context(command)) for name in parameter.opts}
    unknown = [word for word in rest if re.match(r"--?[a-zA-Z]", word) and word.partition("=")[0] not in options]
    return f"unknown option: {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    commands = commands_in(page.read_text(encoding="utf-8"))
    assert {command: fault for command in commands if (fault := fault_of(command))} == {}


def test_an_unknown_command_or_option_is_found() -> None:
    block = "```sh\nharness runn greedy  # a comment\nharness run greedy --sets a=1 | head\n```\n"
    text = f"{block}and `harness package RUN --chek`."
    assert [fault_of(command) for command in commands_in(text)] == [
        "unknown command: runn",
        "unknown option: --sets",
        "unknown option: --chek",
    ]
    assert fault_of("package RUN --check") == fault_of("audit sequence X --control Y") == fault_of("runs --tag a") == ""


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
