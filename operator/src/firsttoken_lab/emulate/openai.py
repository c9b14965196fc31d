"""The OpenAI completion protocol as far as load generators use it: requests in, answers and stream chunks out.

Pure translation between JSON and a `Prompt`; no HTTP and no time. The text is emulated too: every output token is one
common English word that tokenizers keep whole, so a client that counts tokens in the text arrives at the same number.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

WORDS = (
    *("the", "time", "of", "day", "is", "good", "and", "we"),
    *("all", "know", "that", "it", "was", "there", "for", "us"),
)
DEFAULT_MAX_TOKENS = 16
"""OpenAI's default of `max_tokens`."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


class BadRequest(ValueError):
    """A request that the server refuses (HTTP 400). `field` is the JSON field, the message names the fix."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(f"{field}: {message}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """Request as asked for: lengths in tokens, and the form of the answer."""

    chat: bool
    model: str
    input_tokens: int
    output_tokens: int
    finish_reason: str
    stream: bool
    include_usage: bool


def count_tokens(text: str) -> int:
    """Words and punctuation marks. NB: a client's own tokenizer counts differently; `usage` reports this count."""
    return len(_TOKEN.findall(text))


def words(start: int, count: int) -> str:
    """The text of the output tokens `start` .. `start + count - 1`."""
    picked = itertools.islice(itertools.cycle(WORDS), start % len(WORDS), start % len(WORDS) + count)
    return "".join(f" {word}" for word in picked)


def parse(body: Any, *, chat: bool, natural_output_tokens: int | None) -> Prompt:
    """Read a request of `/v1/chat/completions` (`chat`) or `/v1/completions`.

    The answer has `max_tokens` tokens with `ignore_eos`; otherwise the emulated model stops by itself after
    `natural_output_tokens` (None: never), inside `min_tokens` and `max_tokens`.

    Raises:
        BadRequest: a field is missing, of the wrong type, or asks for what is not emulated.

    """
    if not isinstance(body, dict):
        raise BadRequest("body", "send a JSON object")
    if _integer(body, "n", 1) != 1:
        raise BadRequest("n", "only 1 answer a request is emulated; leave it out")
    limit = _integer(body, "max_completion_tokens", None) if chat else None
    if limit is None:
        limit = _integer(body, "max_tokens", None)
    least = _integer(body, "min_tokens", 0, least=0)
    if limit is None and (body.get("ignore_eos") or natural_output_tokens is None):
        limit = natural_output_tokens or DEFAULT_MAX_TOKENS
    ends = [] if limit is None else [limit]
    if natural_output_tokens is not None and not body.get("ignore_eos"):
        ends.append(max(natural_output_tokens, least or 0))
    output = min(ends)
    options = body.get("stream_options") or {}
    return Prompt(
        chat=chat,
        model=str(body.get("model", "")),
        input_tokens=max(1, _chat_tokens(body) if chat else _prompt_tokens(body)),
        output_tokens=output,
        finish_reason="length" if output == limit else "stop",
        stream=bool(body.get("stream", False)),
        include_usage=isinstance(options, dict) and bool(options.get("include_usage")),
    )


def _integer(body: dict[str, Any], field: str, default: int | None, *, least: int = 1) -> int | None:
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadRequest(field, f"must be an integer >= {least}, not {value!r}")
    return value


def _chat_tokens(body: dict[str, Any]) -> int:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages", "send a non-empty list of {role, content}")
    total = 0
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        parts = content if isinstance(content, list) else [{"text": content}]
        for part in parts:
            text = part.get("text") if isinstance(part, dict) else None
            if not isinstance(text, str):
                raise BadRequest("messages", "each content must be text or a list of text parts")
            total += count_tokens(text)
    return total


def _prompt_tokens(body: dict[str, Any]) -> int:
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return count_tokens(prompt)
    if isinstance(prompt, list) and prompt:
        if all(isinstance(token, int) for token in prompt):
            return len(prompt)
        if len(prompt) == 1 and isinstance(prompt[0], str):
            return count_tokens(prompt[0])
    raise BadRequest("prompt", "send one text, or one list of token numbers")


@dataclass(frozen=True, slots=True)
class Answer:
    """Builds the JSON of one answer. `created`: Unix seconds."""

    prompt: Prompt
    identity: str
    created: int

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.identity,
            "object": kind,
            "created": self.created,
            "model": self.prompt.model,
            "choices": choices,
        }

    def usage(self) -> dict[str, int]:
        """Token counts of the whole request."""
        return {
            "prompt_tokens": self.prompt.input_tokens,
            "completion_tokens": self.prompt.output_tokens,
            "total_tokens": self.prompt.input_tokens + self.prompt.output_tokens,
        }

    def whole(self) -> dict[str, Any]:
        """The answer without streaming."""
        text = words(0, self.prompt.output_tokens)
        choice: dict[str, Any] = {"index": 0, "finish_reason": self.prompt.finish_reason, "logprobs": None}
        if self.prompt.chat:
            choice["message"] = {"role": "assistant", "content": text}
            body = self._envelope("chat.completion", [choice])
        else:
            choice["text"] = text
            body = self._envelope("text_completion", [choice])
        return {**body, "usage": self.usage()}

    def chunk(self, start: int, count: int) -> Iterator[bytes]:
        """The stream events of output tokens `start` .. `start + count - 1`, one each."""
        for number in range(start, start + count):
            last = number == self.prompt.output_tokens - 1
            choice: dict[str, Any] = {"index": 0, "finish_reason": self.prompt.finish_reason if last else None}
            text = words(number, 1)
            if self.prompt.chat:
                choice["delta"] = {"role": "assistant", "content": text} if number == 0 else {"content": text}
                yield event(self._envelope("chat.completion.chunk", [choice]))
            else:
                yield event(self._envelope("text_completion", [{**choice, "text": text}]))

    def ending(self) -> Iterator[bytes]:
        """The events after the last token: usage where it was asked for, and the end mark."""
        if self.prompt.include_usage:
            kind = "chat.completion.chunk" if self.prompt.chat else "text_completion"
            yield event({**self._envelope(kind, []), "usage": self.usage()})
        yield b"data: [DONE]\n\n"


def event(body: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n".encode()
