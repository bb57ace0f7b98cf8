"""Convert a team's CommonMark with tables to Typst markup, so that no text in it can run as code.

Raw HTML is shown as text. An image is replaced with its description.
"""

from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from harness.core.errors import HarnessError
from harness.submit.typesetting import array, link, markup, string

_MAX_HEADING_LEVEL = 4
_MAX_NESTING = 24  # A list item takes two levels.
_BYTE_ORDER_MARK = "\ufeff"


def markdown_to_typst(markdown: str, *, top: int = 2) -> str:
    """Return `markdown` as Typst markup. Its first heading level becomes level `top`.

    Raises HarnessError if lists and quotes are nested too deeply.
    """
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 2 * _MAX_NESTING}).enable("table")
    tokens = parser.parse(markdown.removeprefix(_BYTE_ORDER_MARK))
    # The parser silently drops anything nested deeper than its limit.
    if any(token.level > _MAX_NESTING for token in tokens):
        raise HarnessError("the team's Markdown nests lists or quotes too deeply. Flatten them.")
    return "".join(f"{block}\n\n" for block in _blocks(SyntaxTreeNode(tokens), top))


def _blocks(node: SyntaxTreeNode, top: int) -> Iterator[str]:
    for child in node.children:
        yield _block(child, top)


def _block(node: SyntaxTreeNode, top: int) -> str:
    match node.type:
        case "paragraph":
            return _inline(node)
        case "heading":
            level = min(int(node.tag[1]) - 1 + top, _MAX_HEADING_LEVEL)
            return f"#heading(level: {level})[{_inline(node)}]"
        case "bullet_list" | "ordered_list":
            return _list(node, top)
        case "blockquote":
            return f"#quote(block: true)[{_inside(node, top)}]"
        case "fence" | "code_block":
            code = node.content.removesuffix("\n").expandtabs(4)
            return f"#raw(block: true, {string(code)})"
        case "hr":
            return "#line(length: 100%, stroke: 0.4pt)"
        case "table":
            return _table(node)
        case _:
            # No other block is enabled. One that a later parser adds is shown as text.
            return markup(node.content)


def _inside(node: SyntaxTreeNode, top: int) -> str:
    """Return the inside of a content block on lines of its own, because a block may end in a line of code."""
    return "\n" + "\n\n".join(_blocks(node, top)) + "\n"


def _list(node: SyntaxTreeNode, top: int) -> str:
    items = "".join(f", [{_inside(item, top)}]" for item in node.children)
    # The parser hides the paragraphs of a tight list, which has no blank lines between its items.
    is_tight = all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
    tight = f"tight: {'true' if is_tight else 'false'}"
    if node.type == "bullet_list":
        return f"#list({tight}{items})"
    return f"#enum(start: {int(node.attrs.get('start', 1))}, {tight}{items})"


def _table(node: SyntaxTreeNode) -> str:
    rows = [row for part in node.children for row in part.children]
    header = rows[0].children
    aligned = array([_alignment(cell) for cell in header])
    cells = [", ".join(f"[{_inline(cell)}]" for cell in row.children) for row in rows]
    body = "".join(f", {row}" for row in cells[1:])
    return f"#team-table({len(header)}, {aligned}, table.header({cells[0]}){body})"


def _alignment(cell: SyntaxTreeNode) -> str:
    style = str(cell.attrs.get("style", ""))
    return next((side for side in ("right", "center") if style == f"text-align:{side}"), "left")


def _inline(node: SyntaxTreeNode) -> str:
    """Return the markup of the inline content of `node`."""
    return "".join(_part(part) for part in node.children)


def _part(node: SyntaxTreeNode) -> str:
    match node.type:
        case "inline":
            return _inline(node)
        case "text":
            return markup(node.content)
        case "em":
            return f"#emph[{_inline(node)}];"
        case "strong":
            return f"#strong[{_inline(node)}];"
        case "code_inline":
            return f"#raw({string(node.content)});"
        case "link":
            return link(str(node.attrs.get("href", "")), _inline(node))
        case "image":
            shown = "".join(part.content for part in node.walk() if part.type in ("text", "code_inline"))
            return markup(f"[image omitted: {shown or 'no description'}]")
        case "softbreak":
            return "\n"
        case "hardbreak":
            return "#linebreak();"
        case _:
            return markup(node.content)
