"""A completions API on loopback with scripted answers and faults, which records its requests."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """An answer. promised: the Content-Length, if it differs from the body; delay: seconds before the answer."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    promised: int | None = None
    delay: float = 0.0


def completion(text: str, **more: Any) -> Reply:
    """Return a valid answer that ended at the token limit."""
    choices = [{"text": text, "index": 0, "finish_reason": "length"}]
    return Reply(body=json.dumps({"object": "text_completion", "choices": choices, **more}).encode())


def edited(reply: Reply, *, of_answer: dict[str, Any] | None = None, **of_choice: Any) -> Reply:
    """Return `reply` with other fields of the answer and of its only choice. `text` is that of a chat message, too."""
    answer = json.loads(reply.body)
    choice = answer["choices"][0]
    if "message" in choice and "text" in of_choice:
        choice["message"]["content"] = of_choice.pop("text")
    answer |= of_answer or {}
    choice |= of_choice
    return Reply(body=json.dumps(answer).encode())


def text_of(reply: Reply) -> str:
    """Return the text of an answer."""
    choice = json.loads(reply.body)["choices"][0]
    return str(choice["message"]["content"] if "message" in choice else choice["text"])


def prompt_of(body: dict[str, Any]) -> str:
    """Return the prompt of a request, without the instruction to continue it."""
    return str(body["messages"][-1]["content"].partition("\n\n")[2] if "messages" in body else body["prompt"])


Habit = Callable[[dict[str, Any], int, Reply], Reply]
"""Changes an answer as a real server does, given the body of the request and the number of requests before it."""


def _choice(**fields: Any) -> Habit:
    return lambda body, number, reply: edited(reply, **fields)


BLOCKING_HABITS: dict[str, Habit] = {
    "filter": _choice(text="", finish_reason="content_filter"),
    "filterpart": _choice(text=" cut after four words", finish_reason="RECITATION"),
    "filternull": _choice(text=None, finish_reason="SAFETY"),
    "filternative": _choice(text="", finish_reason="error", native_finish_reason="RECITATION"),
    "filterresults": _choice(text="", content_filter_results={"protected_material_text": {"filtered": True}}),
    "filtersensitive": _choice(text="", finish_reason="sensitive"),
    "filter200": lambda body, number, reply: Reply(body=b'{"error": {"code": "content_filter"}}'),
    "filterprompt": lambda body, number, reply: Reply(body=b'{"choices": [], "promptFeedback": {"blockReason": "X"}}'),
    "filter451": lambda body, number, reply: Reply(451),
    "filter500": lambda body, number, reply: Reply(500, b'{"error": {"code": "content_policy_violation"}}'),
    "filterchoice": _choice(text="", finish_reason="error", error={"code": "content_filter"}),
    "filter403": lambda body, number, reply: Reply(
        403, b'{"error": {"message": "Your model requires moderation and your input was flagged", "code": 403}}'
    ),
    "filtermessage": lambda body, number, reply: Reply(
        400, b'{"error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}}'
    ),
    "filternamed": _choice(text=None, finish_reason="content-filter: PROHIBITED_CONTENT"),
    "filter400": lambda body, number, reply: Reply(400, b'{"error": {"code": "content_filter", "message": "no"}}'),
}
"""Filters of providers."""


def _refusing(*names: str, form: str = "Unrecognized request argument supplied: {}", status: int = 400) -> Habit:
    """Refuse requests that contain one of these parameters, one name per answer."""

    def change(body: dict[str, Any], number: int, reply: Reply) -> Reply:
        refused = next((name for name in names if name in body), None)
        if refused is None:
            return reply
        return Reply(status, json.dumps({"error": {"message": form.format(refused), "code": None}}).encode())

    return change


def _penalty(name: str, neutral: float) -> Habit:
    """Apply a default of the server that writes other words, unless the request sends the neutral value."""

    def change(body: dict[str, Any], number: int, reply: Reply) -> Reply:
        return reply if body.get(name) == neutral else edited(reply, text=" penalized" * 20)

    return change


def _both(first: Habit, second: Habit) -> Habit:
    return lambda body, number, reply: second(body, number, first(body, number, reply))


def _echo(words: int | None, before: str = "") -> Habit:
    """Put the last words of the prompt, or all of it, before the completion."""

    def change(body: dict[str, Any], number: int, reply: Reply) -> Reply:
        prompt = prompt_of(body).split()
        return edited(reply, text=before + " ".join(prompt[-words:] if words else prompt) + text_of(reply))

    return change


def _usage(**counts: int) -> Habit:
    return lambda body, number, reply: edited(reply, of_answer={"usage": counts})


def _fallback(name: str, *, remainder: int) -> Habit:
    """Let another model, which has memorized nothing, give every second answer. `name` is that of the right model."""

    def change(body: dict[str, Any], number: int, reply: Reply) -> Reply:
        if number % 2 != remainder:
            return edited(reply, of_answer={"model": name})
        return edited(reply, of_answer={"model": "other/tiny"}, text=" something else entirely" * 9)

    return change


def _unstable(body: dict[str, Any], number: int, reply: Reply) -> Reply:
    """Write the number of the request into the tenth word, so that no answer is repeated."""
    words = text_of(reply).split()
    return edited(reply, text=" ".join([*words[:9], f"n{number}", *words[10:]]))


def _short(body: dict[str, Any], number: int, reply: Reply) -> Reply:
    """End after four words."""
    return edited(reply, text=" ".join(text_of(reply).split()[:4]))


def _limited(body: dict[str, Any], number: int, reply: Reply) -> Reply:
    return edited(_short(body, number, reply), finish_reason="max_tokens")


def _filter_of_repeats(body: dict[str, Any], number: int, reply: Reply) -> Reply:
    return reply if number < 12 else edited(reply, text="", finish_reason="content_filter")


def _joined(body: dict[str, Any], number: int, reply: Reply) -> Reply:
    return edited(reply, text=prompt_of(body) + text_of(reply).strip())


def _introduced(introduction: str) -> Habit:
    return lambda body, number, reply: edited(reply, text=introduction + text_of(reply))


HARMLESS_HABITS: dict[str, Habit] = {
    "name in capitals": _choice(of_answer={"model": "GPT"}),
    "dated name": _choice(of_answer={"model": "gpt-2024-08-06"}),
    "no name": _choice(of_answer={"model": None}),
    "counts": _usage(prompt_tokens=90, completion_tokens=20),
    "default penalty": _penalty("repetition_penalty", 1),
    "default penalty of llama.cpp": _penalty("repeat_penalty", 1),
    "default min-p": _penalty("min_p", 0),
    "default top-k": _penalty("top_k", -1),
}
"""Habits that change no rate and need no word."""
_ALIKE = r"begin like others and not like their originals: 12 of \d+\."
_CUT = r"its last words: 12\."
_INTRODUCTION = r"with an introduction.*: 12 of \d+\."
_TOKEN_LIMIT = r"ended at a limit of tokens before the suffix's number of words: 12 of \d+\."
HABITS: dict[str, tuple[Habit, str]] = {
    "fallback": (_fallback("gpt", remainder=1), r"Only the answers of gpt count; answers by model: gpt \(\d+\), o"),
    "fallback first": (_fallback("gpt", remainder=0), r"Only the answers of gpt count; answers by model: gpt"),
    "dated and fallback": (_fallback("gpt-2024-08-06", remainder=1), r"Only the answers of gpt-2024-08-06 count"),
    "refused names": (_refusing("min_p", "top_k"), r"neutral parameters, which does not affect greedy decoding: min_p"),
    "refused penalty": (
        _both(_penalty("repetition_penalty", 1), _refusing("repetition_penalty", form="extra: ['{}']", status=422)),
        r"refuses neutral parameters, so its own defaults may apply.*repetition_penalty \(\d+ requests\)",
    ),
    "refused without a name": (_refusing("min_p", form="invalid request"), r"refuses neutral parameters.*min_p"),
    "full text": (_echo(None), r"began with the prompt or its last words: 12\. These \d+ words were cut off"),
    "end of the prompt": (_echo(8), r"began with the prompt or its last words: 12\. These 96 words were cut off"),
    "introduced full text": (_echo(None, "Sure! Here is the continuation: "), _CUT),
    "labelled full text": (_echo(None, "Text: "), _CUT),
    "cited full text": (_echo(None, "> "), _CUT),
    "empty": (_choice(text="", finish_reason="stop"), r"Completions without a word: 12 of \d+, which count as failed"),
    "odd end": (_choice(finish_reason="OTHER"), r"unusual reason, which are compared as they are: other \(12 times\)"),
    "quoted end": (_echo(9, "… "), _CUT),
    "introduction": (_introduced("Certainly! Here is the rest of the text:\n\n"), _INTRODUCTION),
    "joined full text": (_joined, _CUT),
    "role and full text": (_echo(None, "user\n"), _CUT),
    "role token and full text": (_echo(None, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"), _CUT),
    "introduced with below": (_introduced("Below is the continuation of the text:\n\n"), _INTRODUCTION),
    "limit of tokens": (_limited, _TOKEN_LIMIT),
    "filter of repeats": (_filter_of_repeats, r"not repeatable: 5 of 5 requests"),
    "refusal in words": (_choice(text="I'm sorry, but I can't continue it."), _ALIKE),
    "refusal in words of another language": (_choice(text="抱歉，我不能继续这段文字。"), _ALIKE),
    "introduction without a mark": (_introduced("Sure, here you go. "), _ALIKE),
    "reasoning": (_introduced("<thinking>\nOkay, so the user wants more.\n</thinking>\n"), _ALIKE),
    "channel": (_introduced("<|channel|>final<|message|>"), _ALIKE),
    "code fence": (_introduced("```text\n"), r"or with a code fence: 12 of \d+\."),
    "window": (_usage(prompt_tokens=7), r"The server may cut prompts: .* 12 of 12 prompts, for example 7 tokens for"),
    "short limit": (_short, _TOKEN_LIMIT),
    "unstable": (_unstable, r"not repeatable: 5 of 5 requests"),
    **{name: (habit, r"Blocked by the provider: 12,") for name, habit in BLOCKING_HABITS.items()},
}
"""Habits that may change a rate, and a pattern of the sentence that the findings need."""


@dataclass
class CompletionsServer:
    """The URL, and the path, headers and body of each request so far."""

    url: str
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        return [body["prompt"] for body in self.bodies]


@contextmanager
def completions_server(reply: Callable[[dict[str, Any], int], Reply], *, port: int = 0) -> Iterator[CompletionsServer]:
    """Serve `reply`, which gets a request's body and the number of requests before it."""
    lock = threading.Lock()
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(asked.bodies)
                asked.paths.append(self.path)
                asked.headers.append(dict(self.headers))
                asked.bodies.append(body)
            made = reply(body, number)
            stopped.wait(made.delay)
            # The client may have timed out, or may have been killed.
            with suppress(ConnectionError):
                self.send_response(made.status)
                for name, value in made.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(made.body) if made.promised is None else made.promised))
                self.end_headers()
                self.wfile.write(made.body)
            self.close_connection = made.promised is not None

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    asked = CompletionsServer(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
