"""A description has two to five pages and is reproducible, and Markdown keeps its structure and never runs."""

import os
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import typst
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from matplotlib.image import imread

from harness.core.errors import HarnessError
from harness.core.exports import redact_suffix
from harness.core.text import sanitize
from harness.figures.sheet import drawable_characters
from harness.runs.attack_record import submission_now
from harness.submit import run_tables
from harness.submit.description import write_description
from harness.submit.run_facts import RunFacts, run_facts
from harness.submit.team import Member, Team
from harness.submit.typst import markdown_to_typst
from tests.conftest import require_tool
from tests.functional.machine import ROOT
from tests.records import recorded_run
from tests.tools.tiers import first_is_fast
from tests.unit.submit.ended import HOSTILE, add_code, ended_run, make_hostile
from tests.unit.submit.typst_text import packed, typeset_text

MEANINGFUL = "#$@<>\\_*`~[](){}|!-+=/.:;,'\"^&% \n\t\r019aZé中😀\u202e\u200b\u00a0\x00\x1b"
FRAGMENTS = (
    *('#import "x"', "#let x = 1", "#panic()", "$x$", "@ref", "<label>", "\\", "\\u{41}", "// no", "/* no", "```", "`"),
    *("- ", "+ ", "1. ", "= ", "/ term: ", "> ", "| a | b |\n|---|:-:|\n| c | d |\n", "\n\n", "\n", "    ", "~~~\n"),
    *("---\n", "[a](b)", '[a](https://b.c/#d"e)', "![a *b*](c)", "<b>", "<!-- -->", "<https://a.b>", "*", "**", "_"),
    *("[", "]", "(", ")", ";", ".len()", "&#8238;", "&amp;", "#[", "#{", "}", '"', "'", "https://a.b/c", "\u2028"),
    *("\u0085", "\u202e", "a" * 70),
)

anything = st.text(st.one_of(st.sampled_from(MEANINGFUL), st.characters(exclude_categories=["Cs"])), max_size=80)
pieced = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(MEANINGFUL, max_size=6)), max_size=25).map("".join)


def text_in(markdown: str) -> str:
    """The packed text that a reader of `markdown` is to see, by its tokens; of images their descriptions."""
    shown = []
    for token in MarkdownIt("commonmark", {"html": False}).enable("table").parse(markdown.removeprefix("\ufeff")):
        if token.type in ("fence", "code_block"):
            shown.append(token.content)
        for part in token.children or ():
            if part.type == "image":
                inside = "".join(child.content for child in part.children or () if child.type != "softbreak")
                shown.append(f"[image omitted: {inside or 'no description'}]")
            else:
                shown.append(part.content)
    spaced = (" " if c in "\n\t" or unicodedata.category(c) == "Zs" else c for c in "\n".join(shown))
    drawn = (c if ord(c) in drawable_characters() else f"⟨U+{ord(c):04X}⟩" for c in sanitize("".join(spaced)))
    return packed("".join(drawn))


@settings(max_examples=50, deadline=None)
@given(anything | pieced)
def test_any_markdown_compiles_and_its_text_appears(markdown: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert typeset_text(markdown, Path(folder)) == text_in(markdown)


@pytest.mark.parametrize(
    ("markdown", "typst"),
    [
        ("# One\n\n## Two", "#heading(level: 2)[One]\n\n#heading(level: 3)[Two]"),
        ("###### Six", "#heading(level: 4)[Six]"),
        ("*a* **b** `c`", '#emph[a]; #strong[b]; #raw("c");'),
        ("- a\n- b", "#list(tight: true, [\na\n], [\nb\n])"),
        ("3. a\n\n4. b", "#enum(start: 3, tight: false, [\na\n], [\nb\n])"),
        ("> a", "#quote(block: true)[\na\n]"),
        ("[a](https://b.c)", '#link("https://b.c")[a];'),
        ("```sh\na\tb\n```", '#raw(block: true, "a   b")'),
        ("a  \nb", "a#linebreak();b"),
        ("***", "#line(length: 100%, stroke: 0.4pt)"),
        ("|a|b|\n|--|-:|\n|c|d|", "#team-table(2, (left, right,), table.header([a], [b]), [c], [d])"),
    ],
)
def test_structure_is_kept(markdown: str, typst: str) -> None:
    assert markdown_to_typst(markdown).strip() == typst


@pytest.mark.parametrize(
    "markdown",
    ['#import "/etc/passwd"', '#read("/etc/passwd")', "$x^2$", "<label> @label", "#{while true {}}", "\\u{41}", "= no"],
)
def test_typst_code_is_shown_as_text(markdown: str, tmp_path: Path) -> None:
    assert typeset_text(markdown, tmp_path) == packed(markdown)


def test_characters_without_a_font_are_shown_as_code_points(tmp_path: Path) -> None:
    assert typeset_text("Zoë 王 👍", tmp_path) == "Zoë⟨U+738B⟩⟨U+1F44D⟩"


def test_raw_html_is_text_and_an_image_is_its_description(tmp_path: Path) -> None:
    shown = typeset_text("<script>alert(1)</script>\n\n![our *pipeline*](/etc/passwd)", tmp_path)
    assert "<script>alert(1)</script>" in shown
    assert "imageomitted:ourpipeline" in shown
    assert "passwd" not in shown


@pytest.mark.parametrize("address", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "relative.md"])
def test_only_web_and_mail_links_are_kept(address: str) -> None:
    assert "#link" not in markdown_to_typst(f"[here]({address})")


@pytest.mark.parametrize(
    "markdown",
    ["> " * 20 + "x", "\n".join("  " * depth + "- x" for depth in range(11)), "*_" * 80 + "x" + "_*" * 80, "x" * 9000],
)
def test_deep_nesting_and_long_words_compile(markdown: str, tmp_path: Path) -> None:
    assert "x" in typeset_text(markdown, tmp_path)


@pytest.mark.parametrize("markdown", ["> " * 90 + "x", "\n".join("  " * depth + "- x" for depth in range(90))])
def test_too_deep_nesting_is_refused(markdown: str) -> None:
    with pytest.raises(HarnessError, match="too deeply"):
        markdown_to_typst(markdown)


METHOD = "# Idea\n\nSample, *then* rank.\n\n| a | b |\n|---|--:|\n| x | 1 |\n"
PARAGRAPH = "Every prefix is shown once, and what follows is kept in the order of its likelihood. " * 8 + "\n\n"


TEAM = Team(
    name="Team",
    contact="team@example.org",
    members=(Member(name="Ada", affiliation="Somewhere"), Member(name="Bo", affiliation="Elsewhere")),
)


def described(folder: Path, home: Path, **options: object) -> Path:
    written(run_facts(ended_run(home, **options)), TEAM, METHOD, folder)
    return folder


def written(facts: RunFacts, team: Team | None, markdown: str, folder: Path, *, redact: bool = False) -> int:
    """Write a description to `folder`, and return its number of pages."""
    folder.mkdir(exist_ok=True)
    return write_description(facts, team, markdown, folder, redact=redact)


def test_the_sources_compile_to_the_same_pdf(home: Path) -> None:
    folder = described(home / "out", home)
    pdf = (folder / "description.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert sorted(path.name for path in folder.iterdir()) == [
        *("description.pdf", "description.typ", "method.md", "method.typ", "recall.svg", "template.typ", "time.svg"),
    ]
    (folder / "description.pdf").unlink()
    assert typst.compile(folder / "description.typ", ignore_system_fonts=True) == pdf
    assert (folder / "method.md").read_text() == METHOD


def test_a_process_in_another_time_zone_writes_the_same_bytes(home: Path) -> None:
    run = ended_run(home)
    code = (
        "import sys, pathlib\n"
        "from harness.runs.folder import RunFolder\n"
        "from harness.submit.description import write_description\n"
        "from harness.submit.run_facts import run_facts\n"
        "folder = pathlib.Path(sys.argv[2]); folder.mkdir()\n"
        "write_description(run_facts(RunFolder(pathlib.Path(sys.argv[1]))), None, '# Idea', folder, redact=False)\n"
    )
    written(run_facts(run), None, "# Idea", home / "one")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "random"}
    subprocess.run([sys.executable, "-c", code, str(run.path), str(home / "two")], env=environment, check=True)
    files = sorted(path.name for path in (home / "one").iterdir())
    assert "description.pdf" in files
    for name in files:
        assert (home / "one" / name).read_bytes() == (home / "two" / name).read_bytes(), name


@pytest.mark.parametrize(
    "options",
    first_is_fast([{}, {"is_blind": True}, {"limit": 10}, {"phase": "crashed"}, {"solved": 0}, {"solved": 16}]),
    ids=str,
)
def test_a_description_without_markdown_has_two_pages(options: dict[str, object], home: Path) -> None:
    assert written(run_facts(ended_run(home, **options)), None, "", home / "out") == 2


def test_a_run_without_guesses_is_described(home: Path) -> None:
    recorded = recorded_run(home)
    recorded.store.close()
    assert written(run_facts(recorded.folder), TEAM, "", home / "out") == 2


def test_a_blind_run_has_no_recall(home: Path) -> None:
    folder = described(home / "out", home, is_blind=True)
    source = (folder / "description.typ").read_text()
    assert "The round is blind" in source and "recall" not in source.lower()
    assert not (folder / "recall.svg").exists()


def test_a_partial_run_is_marked(home: Path) -> None:
    source = (described(home / "out", home, limit=10) / "description.typ").read_text()
    assert "Only the first 10 of the round" in source and "not a result of the round" in source


def test_parameters_are_explained_with_their_defaults(home: Path) -> None:
    run = ended_run(home)
    add_code(run, trials=7, note="x")
    facts = run_facts(run)
    assert run_tables.parameters(facts) == [
        ("Parameter", "Value", "Default", "Meaning"),
        ("trials", "7", "100", "Suffixes sampled per prefix (at least 1)."),
        ("note", "x", "empty", "A remark."),
    ]
    written(facts, None, "", home / "out")
    assert "Suffixes sampled per prefix" in (home / "out" / "description.typ").read_text()


def test_parameters_of_code_that_cannot_be_imported_have_no_default(home: Path) -> None:
    run = ended_run(home)
    add_code(run, "raise ImportError", trials=7)
    assert run_tables.parameters(run_facts(run)) == [("Parameter", "Value"), ("trials", "7")]


@pytest.mark.parametrize("paragraphs", first_is_fast([0, 5, 12]))
def test_a_description_fills_all_pages_but_the_last(paragraphs: int, home: Path) -> None:
    require_tool("pdftoppm", package="poppler-utils")
    run = ended_run(home, examples=64, length=24, solved=30)
    add_code(run, trials=7, note="x")
    pages = written(run_facts(run), TEAM, PARAGRAPH * paragraphs, home / "out")
    filled = filled_heights(home / "out" / "description.pdf")
    assert len(filled) == pages and min(filled[:-1]) > 0.8 and filled[-1] > 0.1, filled


def filled_heights(pdf: Path) -> list[float]:
    """Render a PDF, and return how far down the text of each page reaches, as a share of the room above the footer."""
    subprocess.run(["pdftoppm", "-gray", "-r", "30", str(pdf), str(pdf.parent / "page")], check=True)
    heights = []
    for file in sorted(pdf.parent.glob("page*.pgm")):
        pixels = imread(file)
        room = pixels[: int(0.92 * len(pixels))]
        heights.append(float(np.flatnonzero((room < 200).any(axis=1)).max() / len(room)))
    return heights


def test_too_many_pages_are_refused(home: Path) -> None:
    facts = run_facts(ended_run(home))
    assert written(facts, TEAM, PARAGRAPH * 15, home / "out") <= 5
    with pytest.raises(HarnessError) as refused:
        written(facts, TEAM, PARAGRAPH * 40, home / "out")
    assert "7 pages, a description has 2 to 5. Shorten the team's Markdown by about 2 pages." in str(refused.value)


def test_hostile_names_are_typeset_as_text(home: Path) -> None:
    run = ended_run(home)
    make_hostile(run)
    names = (HOSTILE, '"), read("/etc/passwd"), ("')
    members = tuple(Member.model_construct(name=name) for name in names)
    team = Team.model_construct(name=HOSTILE, contact=HOSTILE, members=members)
    assert 2 <= written(run_facts(run), team, HOSTILE, home / "out") <= 3
    source = (home / "out" / "description.typ").read_text()
    assert "\\#panic\\(\\)" in source
    assert not {"\u202e", "\x1b"} & set(source)


def test_redaction_replaces_suffixes_with_length_and_hash(home: Path) -> None:
    run = ended_run(home)
    texts = {}
    for redact in (False, True):
        folder = home / f"out-{redact}"
        written(run_facts(run), None, "", folder, redact=redact)
        texts[redact] = (folder / "description.typ").read_text()
    first = submission_now(run).suffixes[0]
    shown = " ".join(map(str, first.tolist()))
    hashed = redact_suffix(first, run.attack_spec().round.vocabulary).replace(",", "\\,")
    assert shown in texts[False] and hashed not in texts[False]
    assert shown not in texts[True] and hashed in texts[True]
