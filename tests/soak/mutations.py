"""Random valid submissions, and mutations of their bytes, fields, rows or the whole file."""

import gzip
import random
from collections.abc import Callable
from dataclasses import dataclass

from harness.core.submission_reader import SubmissionRules

_HEADER = "Example ID,Suffix Guess"
_NUMBERS = (
    *(
        "-1",
        "-0",
        "+3",
        " 3",
        "3 ",
        "\t3",
        "3\u00a0",
        "03",
        "00",
        "3.0",
        "3.",
        "1e1",
        "1_0",
        "0x1f",
        "3L",
        "--3",
        "nan",
    ),
    *("inf", "None", "True", "", "''", "'3'", '""3""', "np.int64(3)", "tensor(3)", "３", "٣", "²", "1 2", "1;2", "[3]"),
    *("(3)", "\x003", "3\x00", "\ufeff3", "__import__('os')", "=1+1", "9" * 19, "9" * 30, "9" * 5000),
    *("4294967295", "4294967296", "18446744073709551616"),
)
_BYTES = b"\x00\x0b\x0c\x1a\x1b\x7f\x80\xa0\xc3\xff \t\r\n\"'[](),;0123456789-+_.eE"


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


Mutation = Callable[[bytes, Seed, random.Random], bytes]
MUTATIONS: dict[str, Mutation] = {}


def _mutation(name: str) -> Callable[[Mutation], Mutation]:
    def register(function: Mutation) -> Mutation:
        MUTATIONS[name] = function
        return function

    return register


@_mutation("byte: replaced")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    place = rng.randrange(len(text) or 1)
    return text[:place] + bytes([rng.choice(_BYTES)]) + text[place + 1 :]


@_mutation("byte: one bit flipped")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    content = bytearray(text or b"\0")
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


@_mutation("byte: inserted")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    place = rng.randrange(len(text) + 1)
    return text[:place] + bytes([rng.choice(_BYTES)]) + text[place:]


@_mutation("byte: some deleted")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    place = rng.randrange(len(text) or 1)
    return text[:place] + text[place + rng.choice([1, 1, 2, 30]) :]


@_mutation("byte: some repeated")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    place = rng.randrange(len(text) or 1)
    some = text[place : place + rng.choice([1, 5, 100])]
    return text[:place] + some + text[place:]


@_mutation("byte: truncated")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


@_mutation("field: id replaced")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    known = [str(seed.rules.examples), str(seed.rules.examples - 1), "0"]
    return _with_row(text, rng, lambda row: rng.choice([*_NUMBERS, *known]).encode() + _from_comma(row))


@_mutation("field: token replaced")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    known = [str(seed.rules.vocabulary + more) for more in (-1, 0, 1)]

    def replace_token(row: bytes) -> bytes:
        before, bracket, rest = row.partition(b"[")
        cells = rest.split(b",")
        last = len(cells) - 1
        place = rng.randrange(len(cells))
        end = cells[place][cells[place].find(b"]") :] if place == last and b"]" in cells[place] else b""
        cells[place] = rng.choice([*_NUMBERS, *known, *known]).encode() + end
        return before + bracket + b",".join(cells)

    return _with_row(text, rng, replace_token)


@_mutation("field: suffix length")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    more = rng.choice([b"7,", b"7,7,", b"", b"7," * 10_000])
    return _with_row(text, rng, lambda row: row.replace(b"[", b"[" + more, 1) if more else _without_first_token(row))


@_mutation("field: brackets, quotes or separators")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    pairs = [(b"[", b"("), (b"]", b")"), (b"[", b""), (b"]", b""), (b'"', b"'"), (b'"', b""), (b'"', b'""')]
    pairs += [(b",", b";"), (b",", b"\t"), (b",", b", "), (b",", b" ,"), (b"[", b"[ "), (b"]", b" ]"), (b'"[', b' "[')]
    old, new = rng.choice(pairs)
    return _with_row(text, rng, lambda row: row.replace(old, new, rng.choice([1, -1])))


@_mutation("field: quoted id")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    return _with_row(text, rng, lambda row: b'"' + row.partition(b",")[0] + b'"' + _from_comma(row))


@_mutation("field: many spaces")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    return _with_row(text, rng, lambda row: row.replace(b",", b"," + b" " * rng.choice([4, 40, 4000])))


@_mutation("row: repeated")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    return _with_row(text, rng, lambda row: row + b"\n" + row)


@_mutation("row: shuffled")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    header, *rows = text.splitlines(keepends=True) or [b""]
    rng.shuffle(rows)
    return header + b"".join(rows)


@_mutation("row: deleted")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    return _with_row(text, rng, lambda row: b"")


@_mutation("row: blank or invalid row added")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    line = rng.choice([b"", b" ", b"\t", b"#", b"#,#", b",", b'""', _HEADER.encode(), b"\x00", b"7", b'7,"[', b"..."])
    return _with_row(text, rng, lambda row: row + b"\n" + line)


@_mutation("row: number of columns")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    end = rng.choice([b",", b",0.5", b',"x"', b" ", b"\t", b",,,"])
    return _with_row(text, rng, lambda row: row.partition(b",")[0] if rng.random() < 0.3 else row + end)


@_mutation("row: split by line breaks")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    return _with_row(text, rng, lambda row: row.replace(b",", rng.choice([b",\n", b"\n,", b",\r"]), 2))


@_mutation("file: header replaced")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    body = text.partition(b"\n")[2]
    headers = [b"", b"example id,suffix guess", b"Example ID, Suffix Guess", b"Example ID;Suffix Guess", b"Example ID"]
    headers += [b'"Example ID","Suffix Guess"', b"Suffix Guess,Example ID", b"Example ID,Suffix Guess,", b",Example ID"]
    headers += [b"Example ID,Suffix Guess,Score", b"Example ID,Suffix Guess ", b"sep=,", b"Example ID,Example ID"]
    return rng.choice(headers) + rng.choice([b"\n", b"\r\n"]) + body


@_mutation("file: header deleted")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    return text.partition(b"\n")[2]


@_mutation("file: line ends")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    plain = text.replace(b"\r\n", b"\n")
    if rng.random() < 0.5:
        return plain.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b"\r\r\n", b"\x0b", "\u2028".encode()]))
    return b"".join(line + rng.choice([b"\n", b"\r\n"]) for line in plain.splitlines())


@_mutation("file: last line end")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    return text.rstrip(b"\r\n") + rng.choice([b"", b"\r", b"\n\n", b"\n\n\n", b"\x1a"])


@_mutation("file: encoding")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    encoding = rng.choice(["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp037"])
    return text.decode("latin-1").encode(encoding, "replace")


@_mutation("file: compressed or binary")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    return rng.choice([gzip.compress(text, mtime=0), rng.randbytes(300), b"\0" * 1000, b"", b"\n", b"\x93NUMPY\x01\0"])


@_mutation("file: number of rows near the cap")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    header, *rows = text.splitlines(keepends=True) or [b""]
    if not rows or (seed.rules.row_cap > 1000 and (seed.rules.suffix_length > 2 or rng.random() < 0.8)):
        return text
    wanted = seed.rules.row_cap + rng.choice([-1, 0, 1, 50])
    return header + b"".join(rows[number % len(rows)] for number in range(wanted))


@_mutation("file: very long line")
def _(text: bytes, seed: Seed, rng: random.Random) -> bytes:
    endless = rng.choice([b"1,", b" ", b"[", b'"', b"9"]) * 200_000
    return text + rng.choice([b"", b'7,"[', b"7,"]) + endless


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


def _from_comma(row: bytes) -> bytes:
    _, comma, rest = row.partition(b",")
    return comma + rest


def _without_first_token(row: bytes) -> bytes:
    """Return the row without its first token."""
    before, bracket, rest = row.partition(b"[")
    return before + bracket + rest.partition(b",")[2]
