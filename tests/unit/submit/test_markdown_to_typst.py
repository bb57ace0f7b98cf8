"""Markdown to Typst: the structure is kept, all text appears, and none of it runs as code."""

import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.figures.sheet import drawable_characters
from harness.submit.description import markdown_to_typst
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
