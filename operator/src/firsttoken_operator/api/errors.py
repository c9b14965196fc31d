"""The exceptions of `firsttoken_operator.api`.

    ApiError
    ├── UnreadableDocument  a file that is missing, is not YAML, or holds no Kubernetes object
    └── InvalidDocument     an object that the API server would refuse: names the field and the fix

A field that is well formed but cannot be sized (an unknown model, a benchmark name that is not there) is
`firsttoken_sizing.errors.InvalidInput`; both end a command with exit status 2.
"""

from __future__ import annotations


class ApiError(Exception):
    """Base of everything that reading custom resources raises on purpose. Its text is one line, whatever it quotes."""

    def __init__(self, text: str) -> None:
        # A name or a key of the document may hold a line feed, or worse; spelled out it does no harm in a terminal.
        super().__init__("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))


class UnreadableDocument(ApiError):
    """A file that cannot be read as Kubernetes objects."""

    def __init__(self, file: str, problem: str, fix: str) -> None:
        super().__init__(f"{file}: {problem}; {fix}")


class InvalidDocument(ApiError):
    """A custom resource that breaks its schema or one of its rules.

    `object_name` is `Kind/name`, `field` the camelCase path (`spec.traffic.inputTokens`), `more` the number of further
    problems in the same object.
    """

    def __init__(self, file: str, object_name: str, field: str, problem: str, fix: str, *, more: int = 0) -> None:
        rest = f" ({more} more problem{'s' if more > 1 else ''} in this object)" if more else ""
        super().__init__(f"{file}: {object_name}: {field}: {problem}; {fix}{rest}")
