"""Typst: markup of text and of Markdown, and typesetting to PDF."""

import re
from pathlib import Path
from unicodedata import category

import typst
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from harness.core.errors import HarnessError
from harness.core.text import sanitize, shorten
from harness.figures.sheet import drawable_characters

_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_WORD = re.compile(r"\S{50,}")
_PIECE = re.compile(r"\S{10}(?=\S)")
_ZERO_WIDTH_SPACE = "\u200b"
_MAX_HEADING_LEVEL = 4
_MAX_NESTING = 24  # A list item takes two levels.
_BYTE_ORDER_MARK = "\ufeff"


def markup(text: str) -> str:
    """Return `text` as Typst markup. All ASCII punctuation is escaped, so it cannot start code, markup or a comment.

    Line ends and other control characters are made visible. Because `(`, `[` and `.` are escaped too, the text cannot
    continue a call that precedes it.
    """
    return _PUNCTUATION.sub(r"\\\g<0>", _safe(text))


def string(text: str) -> str:
    """Return `text` as a Typst string literal. Line ends stay, other control characters are made visible."""
    return _literal("\n".join(_safe(line) for line in text.split("\n")))


def link(address: str, text: str) -> str:
    """Return a link around the markup `text`, or only `text` if this is not a web or mail address."""
    if not address.startswith(("https://", "http://", "mailto:")):
        return text
    return f"#link({_literal(sanitize(address))})[{text}];"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _safe(text: str) -> str:
    """Return `text` with plain spaces, visible control characters, and line breaks allowed in long words.

    Typst omits a character that no available font contains, so it is replaced with its code point.
    """
    spaced = "".join(" " if character == "\t" or category(character) == "Zs" else character for character in text)
    drawable = drawable_characters()
    drawn = "".join(
        character if ord(character) in drawable else f"⟨U+{ord(character):04X}⟩" for character in sanitize(spaced)
    )
    return _WORD.sub(lambda word: _PIECE.sub(rf"\g<0>{_ZERO_WIDTH_SPACE}", word.group()), drawn)


def typeset(source: Path) -> tuple[bytes, int]:
    """Compile a Typst file with the fonts of the typst package alone. Return the bytes of the PDF and its pages.

    The file may read files in its folder, and must attach its number of pages as metadata with the label `<pages>`.
    Raises HarnessError if it cannot be compiled.
    """
    fonts = typst.Fonts(include_system_fonts=False)
    try:
        compiler = typst.Compiler(source, root=source.parent, font_paths=fonts, ignore_system_fonts=True)
        pdf = compiler.compile(format="pdf", timestamp=0)
        pages = int(compiler.query("<pages>", field="value", one=True))
    except typst.TypstError as error:
        raise HarnessError(f"{source}: cannot be typeset ({shorten(sanitize(error.message), 200)}).") from None
    assert isinstance(pdf, bytes)  # Only image formats give several files.
    return pdf, pages


def markdown_to_typst(markdown: str, *, top: int = 2) -> str:
    """Return `markdown` as Typst markup. Its first heading level becomes level `top`.

    No text in it can run as code. Raw HTML is shown as text, and an image is replaced with its description.

    Raises HarnessError if lists and quotes are nested too deeply.
    """
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 2 * _MAX_NESTING}).enable("table")
    tokens = parser.parse(markdown.removeprefix(_BYTE_ORDER_MARK))
    # The parser silently drops anything nested deeper than its limit.
    if any(token.level > _MAX_NESTING for token in tokens):
        raise HarnessError("the team's Markdown nests lists or quotes too deeply. Flatten them.")
    return "".join(f"{_markup_of(block, top)}\n\n" for block in SyntaxTreeNode(tokens).children)


def _markup_of(node: SyntaxTreeNode, top: int) -> str:
    match node.type:
        case "inline" | "paragraph":
            return _inline(node, top)
        case "heading":
            level = min(int(node.tag[1]) - 1 + top, _MAX_HEADING_LEVEL)
            return f"#heading(level: {level})[{_inline(node, top)}]"
        case "bullet_list" | "ordered_list":
            return _list(node, top)
        case "blockquote":
            return f"#quote(block: true)[{_blocks(node, top)}]"
        case "fence" | "code_block":
            code = node.content.removesuffix("\n").expandtabs(4)
            return f"#raw(block: true, {string(code)})"
        case "hr":
            return "#line(length: 100%, stroke: 0.4pt)"
        case "table":
            return _markdown_table(node, top)
        case "em":
            return f"#emph[{_inline(node, top)}];"
        case "strong":
            return f"#strong[{_inline(node, top)}];"
        case "code_inline":
            return f"#raw({string(node.content)});"
        case "link":
            return link(str(node.attrs.get("href", "")), _inline(node, top))
        case "image":
            description = "".join(part.content for part in node.walk() if part.type in ("text", "code_inline"))
            return markup(f"[image omitted: {description or 'no description'}]")
        case "softbreak":
            return "\n"
        case "hardbreak":
            return "#linebreak();"
        case _:
            # Text, and any node that a later parser adds.
            return markup(node.content)


def _inline(node: SyntaxTreeNode, top: int) -> str:
    """Return the markup of the inline content of `node`."""
    return "".join(_markup_of(part, top) for part in node.children)


def _blocks(node: SyntaxTreeNode, top: int) -> str:
    """Return the inside of a content block on lines of its own, because a block may end in a line of code."""
    return "\n" + "\n\n".join(_markup_of(block, top) for block in node.children) + "\n"


def _list(node: SyntaxTreeNode, top: int) -> str:
    items = "".join(f", [{_blocks(item, top)}]" for item in node.children)
    # The parser hides the paragraphs of a tight list, which has no blank lines between its items.
    is_tight = all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
    tight = f"tight: {'true' if is_tight else 'false'}"
    if node.type == "bullet_list":
        return f"#list({tight}{items})"
    return f"#enum(start: {int(node.attrs.get('start', 1))}, {tight}{items})"


def _markdown_table(node: SyntaxTreeNode, top: int) -> str:
    rows = [row for part in node.children for row in part.children]
    header = rows[0].children
    # The parser's style of a cell is `text-align:right`, or nothing.
    sides = [str(cell.attrs.get("style", "")).removeprefix("text-align:") or "left" for cell in header]
    aligned = "".join(f"{side}, " for side in sides).rstrip()
    cells = [", ".join(f"[{_inline(cell, top)}]" for cell in row.children) for row in rows]
    body = "".join(f", {row}" for row in cells[1:])
    return f"#team-table({len(header)}, ({aligned}), table.header({cells[0]}){body})"
