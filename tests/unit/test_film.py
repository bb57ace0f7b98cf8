"""The animated SVG of a terminal session."""

import re
from xml.etree import ElementTree

from tests.pictures.film import CELL_HEIGHT, Frame, edit, read_rows, to_svg

SVG = "{http://www.w3.org/2000/svg}"


def frames(*captured: str) -> list[Frame]:
    return [Frame(float(second), read_rows(text)) for second, text in enumerate(captured)]


def svg(*captured: str, title: str = "title") -> ElementTree.Element:
    return ElementTree.fromstring(to_svg(frames(*captured), columns=20, title=title, last_pause=2.0))


def shots(root: ElementTree.Element) -> list[list[tuple[str, str]]]:
    """Return the rows of each frame: the element that is used and its height in the window."""
    film = root.find(f".//{SVG}g[@class='film']")
    assert film is not None
    return [[(use.attrib["href"], use.attrib["y"]) for use in shot] for shot in film]


def test_text_is_escaped() -> None:
    hostile = "</text><script>alert('&')</script>"
    root = svg(hostile, title='"><script>')
    assert [text.text for text in root.findall(f".//{SVG}defs//{SVG}text")] == [hostile]
    assert not root.findall(f".//{SVG}script") and root.attrib["aria-label"] == '"><script>'


def test_rows_that_frames_share_are_written_once() -> None:
    root = svg("top\nold", "top\nnew", "\nold")
    assert len(root.findall(f".//{SVG}defs/{SVG}g")) == 3
    second = str(CELL_HEIGHT)
    assert shots(root) == [
        [("#r0", "0"), ("#r1", second)],
        [("#r0", "0"), ("#r2", second)],
        [("#r1", second)],
    ]


def test_styles_are_classes_and_carry_over_to_the_next_line() -> None:
    root = svg("\x1b[1;38;2;1;2;3mbold\nnext\x1b[0m rest\x1b[48;2;9;9;9m back")
    texts = {text.text: text.attrib["class"] for text in root.findall(f".//{SVG}defs//{SVG}text")}
    assert texts["bold"] == texts["next"] != texts[" rest"] == texts[" back"]
    css = "".join(root.itertext())
    assert f".{texts['bold']}{{fill:#010203;font-weight:bold}}" in css
    (background,) = root.findall(f".//{SVG}defs//{SVG}rect")
    assert background.attrib["fill"] == "#090909"


def test_wide_characters_take_two_cells() -> None:
    root = svg("語x\x1b[1mbold")
    first, second = root.findall(f".//{SVG}defs//{SVG}text")
    assert float(second.attrib["x"]) == float(first.attrib["textLength"])


def test_every_frame_has_its_moment_and_the_last_one_stays() -> None:
    text = to_svg(frames("one", "two", "three"), columns=20, title="t", last_pause=2.0)
    assert "animation:film 4.00s step-end infinite" in text
    moves = re.findall(r"([\d.]+)%\{transform:translateX\((-?\d+)px\)\}", text)
    assert moves == [("0.00", "0"), ("25.00", "-168"), ("50.00", "-336")]
    assert "@media (prefers-reduced-motion:reduce){.film{animation:none;transform:translateX(-336px)}}" in text


def test_nothing_is_loaded_or_executed() -> None:
    text = to_svg(frames("one"), columns=20, title="t", last_pause=2.0)
    assert re.findall(r"https?://[^\s\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<script|\bon\w+=|@import|url\(", text)


def test_equal_frames_are_dropped_and_pauses_are_shortened() -> None:
    rows = [read_rows(text) for text in ("a", "b", "c")]
    seen = [Frame(0, rows[0]), Frame(1, rows[0]), Frame(2, rows[1]), Frame(60, rows[1]), Frame(90, rows[2])]
    assert edit(seen, longest_pause=3.0, speed=2.0) == [Frame(0, rows[0]), Frame(1, rows[1]), Frame(4, rows[2])]
