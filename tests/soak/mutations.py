"""Random valid submissions, and mutations of their bytes, fields, rows or the whole file."""

import gzip
import random
from collections.abc import Callable
from dataclasses import dataclass

from harness.core.submission_reader import SubmissionRules

_HEADER = "Example ID,Suffix Guess"
_NUMBERS = (
    *("-1", "-0", "+3", " 3", "3 ", "\t3", "3\u00a0", "03", "00", "3.0", "3.", "1e1", "1_0", "0x1f", "3L", "--3"),
    *("nan", "inf", "None", "True", "", "''", "'3'", '""3""', "np.int64(3)", "tensor(3)", "３", "٣", "²", "1 2"),
    *("1;2", "[3]", "(3)", "\x003", "3\x00", "\ufeff3", "__import__('os')", "=1+1", "9" * 19, "9" * 30, "9" * 5000),
    *("4294967295", "4294967296", "18446744073709551616"),
)
_BYTES = b"\x00\x0b\x0c\x1a\x1b\x7f\x80\xa0\xc3\xff \t\r\n\"'[](),;0123456789-+_.eE"
_SEPARATORS = (
    *((b"[", b"("), (b"]", b")"), (b"[", b""), (b"]", b""), (b'"', b"'"), (b'"', b""), (b'"', b'""'), (b",", b";")),
    *((b",", b"\t"), (b",", b", "), (b",", b" ,"), (b"[", b"[ "), (b"]", b" ]"), (b'"[', b' "[')),
)
"""Parts of a row, and their replacements."""
_INVALID_ROWS = (b"", b" ", b"\t", b"#", b"#,#", b",", b'""', _HEADER.encode(), b"\x00", b"7", b'7,"[', b"...")
_HEADERS = (
    *(b"", b"example id,suffix guess", b"Example ID, Suffix Guess", b"Example ID;Suffix Guess", b"Example ID"),
    *(b'"Example ID","Suffix Guess"', b"Suffix Guess,Example ID", b"Example ID,Suffix Guess,", b",Example ID"),
    *(b"Example ID,Suffix Guess,Score", b"Example ID,Suffix Guess ", b"sep=,", b"Example ID,Example ID"),
)
_LINE_ENDS = (b"\r\n", b"\r", b"\n\n", b"\r\r\n", b"\x0b", "\u2028".encode())
_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp037")


@dataclass(frozen=True)
class Seed:
    """A valid submission, the rules that it follows, and the answer of each example."""

    rules: SubmissionRules
    answers: list[tuple[int, ...]]
    rows: list[tuple[int, tuple[int, ...]]]

    def text(self, *, space: str, line_end: str) -> bytes:
        """Return the file in the official layout."""
        lines = [_HEADER, *(f'{example},"[{("," + space).join(map(str, suffix))}]"' for example, suffix in self.rows)]
        return "".join(line + line_end for line in lines).encode()


def random_seed(rng: random.Random) -> Seed:
    """Return a submission for a small round: correct, wrong and repeated rows, sometimes over 100 wrong ones."""
    length, examples = rng.choice([1, 2, 5, 10, 50]), rng.choice([1, 40, 200])
    vocabulary = rng.choice([384, 50257, 1 << 32])
    answers = [tuple(rng.choices(range(vocabulary), k=length)) for _ in range(examples)]
    rows = []
    for _ in range(rng.choice([0, 1, 5, 60, 60, 300])):
        example = rng.randrange(examples)
        wrong = tuple(rng.choices(range(vocabulary), k=length))
        rows.append((example, answers[example] if rng.random() < 0.4 else wrong))
    return Seed(SubmissionRules(examples, length, vocabulary, row_cap=rng.choice([400, 100_000])), answers, rows)


def mutate(seed: Seed, rng: random.Random) -> tuple[str, bytes]:
    """Return the name of a mutation and the mutated file. One file in six is not mutated."""
    text = seed.text(space=rng.choice(["", "", " ", "   "]), line_end=rng.choice(["\n", "\n", "\r\n"]))
    if rng.random() < 1 / 6:
        return "none", text
    name = rng.choice(list(MUTATIONS))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        text = MUTATIONS[name](text, seed, rng)
    return name, text


def _splice(text: bytes, place: int, removed: int, inserted: bytes = b"") -> bytes:
    return text[:place] + inserted + text[place + removed :]


def _flip_bit(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    content = bytearray(text or b"\0")
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def _repeat(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    place = rng.randrange(len(text) or 1)
    return _splice(text, place, 0, text[place : place + rng.choice([1, 5, 100])])


def _with_row(text: bytes, rng: random.Random, change: Callable[[bytes], bytes]) -> bytes:
    """Return the text with one row changed, or the header if there is no row. Line ends are kept."""
    lines = text.split(b"\n")
    place = rng.randrange(1, len(lines) - 1) if len(lines) > 2 else 0
    row = lines[place]
    end = b"\r" if row.endswith(b"\r") else b""
    lines[place] = change(row.removesuffix(b"\r")).replace(b"\n", end + b"\n") + end
    if lines[place] == end:
        del lines[place]
    return b"\n".join(lines)


def _replace_id(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    known = [str(seed.rules.examples), str(seed.rules.examples - 1), "0"]
    return _with_row(text, rng, lambda row: rng.choice([*_NUMBERS, *known]).encode() + _from_comma(row))


def _replace_token(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    known = [str(seed.rules.vocabulary + more) for more in (-1, 0, 1)]

    def change(row: bytes) -> bytes:
        before, bracket, rest = row.partition(b"[")
        cells = rest.split(b",")
        place = rng.randrange(len(cells))
        end = cells[-1][cells[-1].find(b"]") :] if place == len(cells) - 1 and b"]" in cells[-1] else b""
        cells[place] = rng.choice([*_NUMBERS, *known, *known]).encode() + end
        return before + bracket + b",".join(cells)

    return _with_row(text, rng, change)


def _change_length(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    more = rng.choice([b"7,", b"7,7,", b"", b"7," * 10_000])
    return _with_row(text, rng, lambda row: row.replace(b"[", b"[" + more, 1) if more else _without_first_token(row))


def _replace_separators(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    old, new = rng.choice(_SEPARATORS)
    return _with_row(text, rng, lambda row: row.replace(old, new, rng.choice([1, -1])))


def _shuffle_rows(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    header, *rows = text.splitlines(keepends=True) or [b""]
    rng.shuffle(rows)
    return header + b"".join(rows)


def _add_invalid_row(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    line = rng.choice(_INVALID_ROWS)
    return _with_row(text, rng, lambda row: row + b"\n" + line)


def _change_columns(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    end = rng.choice([b",", b",0.5", b',"x"', b" ", b"\t", b",,,"])
    return _with_row(text, rng, lambda row: row.partition(b",")[0] if rng.random() < 0.3 else row + end)


def _replace_header(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    return rng.choice(_HEADERS) + rng.choice([b"\n", b"\r\n"]) + text.partition(b"\n")[2]


def _change_line_ends(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    plain = text.replace(b"\r\n", b"\n")
    if rng.random() < 0.5:
        return plain.replace(b"\n", rng.choice(_LINE_ENDS))
    return b"".join(line + rng.choice([b"\n", b"\r\n"]) for line in plain.splitlines())


def _fill_to_cap(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    header, *rows = text.splitlines(keepends=True) or [b""]
    if not rows or (seed.rules.row_cap > 1000 and (seed.rules.suffix_length > 2 or rng.random() < 0.8)):
        return text
    wanted = seed.rules.row_cap + rng.choice([-1, 0, 1, 50])
    return header + b"".join(rows[number % len(rows)] for number in range(wanted))


def _add_long_line(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    endless = rng.choice([b"1,", b" ", b"[", b'"', b"9"]) * 200_000
    return text + rng.choice([b"", b'7,"[', b"7,"]) + endless


def _from_comma(row: bytes) -> bytes:
    _, comma, rest = row.partition(b",")
    return comma + rest


def _without_first_token(row: bytes) -> bytes:
    before, bracket, rest = row.partition(b"[")
    return before + bracket + rest.partition(b",")[2]


MUTATIONS: dict[str, Callable[[bytes, Seed, random.Random], bytes]] = {
    "byte: replaced": lambda text, seed, rng: _splice(
        text, rng.randrange(len(text) or 1), 1, bytes([rng.choice(_BYTES)])
    ),
    "byte: one bit flipped": _flip_bit,
    "byte: inserted": lambda text, seed, rng: _splice(
        text, rng.randrange(len(text) + 1), 0, bytes([rng.choice(_BYTES)])
    ),
    "byte: some deleted": lambda text, seed, rng: _splice(
        text, rng.randrange(len(text) or 1), rng.choice([1, 1, 2, 30])
    ),
    "byte: some repeated": _repeat,
    "byte: truncated": lambda text, seed, rng: text[: rng.randrange(len(text) + 1)],
    "field: id replaced": _replace_id,
    "field: token replaced": _replace_token,
    "field: suffix length": _change_length,
    "field: brackets, quotes or separators": _replace_separators,
    "field: quoted id": lambda text, seed, rng: _with_row(
        text, rng, lambda row: b'"' + row.partition(b",")[0] + b'"' + _from_comma(row)
    ),
    "field: many spaces": lambda text, seed, rng: _with_row(
        text, rng, lambda row: row.replace(b",", b"," + b" " * rng.choice([4, 40, 4000]))
    ),
    "row: repeated": lambda text, seed, rng: _with_row(text, rng, lambda row: row + b"\n" + row),
    "row: shuffled": _shuffle_rows,
    "row: deleted": lambda text, seed, rng: _with_row(text, rng, lambda row: b""),
    "row: blank or invalid row added": _add_invalid_row,
    "row: number of columns": _change_columns,
    "row: split by line breaks": lambda text, seed, rng: _with_row(
        text, rng, lambda row: row.replace(b",", rng.choice([b",\n", b"\n,", b",\r"]), 2)
    ),
    "file: header replaced": _replace_header,
    "file: header deleted": lambda text, seed, rng: text.partition(b"\n")[2],
    "file: line ends": _change_line_ends,
    "file: last line end": lambda text, seed, rng: (
        text.rstrip(b"\r\n") + rng.choice([b"", b"\r", b"\n\n", b"\n\n\n", b"\x1a"])
    ),
    "file: encoding": lambda text, seed, rng: text.decode("latin-1").encode(rng.choice(_ENCODINGS), "replace"),
    "file: compressed or binary": lambda text, seed, rng: rng.choice(
        [gzip.compress(text, mtime=0), rng.randbytes(300), b"\0" * 1000, b"", b"\n", b"\x93NUMPY\x01\0"]
    ),
    "file: number of rows near the cap": _fill_to_cap,
    "file: very long line": _add_long_line,
}
"""Each mutation gets the bytes of a file, the submission and a generator."""
