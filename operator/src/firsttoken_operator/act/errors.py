"""The exceptions of `act`: what the API server may answer, in the few kinds that call for different behavior.

    ClusterError
    ├── NotFound      404: the object is gone
    ├── Conflict      409: another writer was faster, or a precondition (uid, resourceVersion) does not hold
    ├── Rejected      any other 4xx: the server understood and refused; repeating it unchanged is useless
    ├── Withheld      an administrator has stopped all writes, or another operator may lead: nothing was sent
    └── Unavailable   timeout, refused connection, 5xx: nothing is known about the outcome; try again later
        ├── Throttled   429, or a 503 that says when to come back: not before then
        └── NoTurn      it was not sent: the budget of writes was spent on others until the deadline

NB: after `Unavailable` a write may still have been applied (the answer was lost). Read before writing again.
"""

from __future__ import annotations


class ClusterError(Exception):
    """Base of everything that talking to the API server may raise."""


class NotFound(ClusterError):
    """The object does not exist."""


class Conflict(ClusterError):
    """A precondition of a write does not hold, or the object exists already."""


class Rejected(ClusterError):
    """The server refused for good: forbidden, invalid, denied by admission."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class Withheld(ClusterError):
    """All writes are stopped; this one was not sent."""


class Unavailable(ClusterError):
    """No usable answer; the outcome of a write is unknown."""


class NoTurn(Unavailable):
    """Nothing was sent, because others had the whole budget until the deadline."""


class Throttled(Unavailable):
    """The server asks for so many seconds of silence."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)
