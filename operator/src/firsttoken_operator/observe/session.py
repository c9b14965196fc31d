"""An HTTP session that a faulty or hostile server cannot hold for ever, fill up or send elsewhere.

No proxies or credentials from the environment, no redirects, no compression (a small answer cannot unpack into a large
one), a byte cap, and `abort`, with which another thread ends a read that is past its deadline. It knows JSON but not
Prometheus, and maps every failure to one `Reason`, in words that are ours or the operating system's, never the other
side's.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import stat
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.response import HTTPResponse

from firsttoken_operator.domain import Reason

CHUNK_BYTES = 64 * 1024
MAXIMUM_RETRY_AFTER_SECONDS = 300.0
LONGEST_TOKEN_BYTES = 16 * 1024
LONGEST_QUERY_CHARACTERS = 7000
"""Parameters that are asked for by their address: some servers take no line of more than 8 KiB."""


class RequestFailed(Exception):
    """The request gave no usable document: why, in a text without credentials."""

    def __init__(self, reason: Reason, detail: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds


class AnswerTooLarge(RequestFailed):
    """The answer has more bytes than are read."""


Parse = Callable[[Iterator[bytes]], Any]
"""Makes a document of a body. May raise `RequestFailed`; has to read all of it."""


def parse_json(chunks: Iterator[bytes]) -> Any:
    """Read the whole body at once."""
    try:
        return json.loads(b"".join(chunks))
    except (ValueError, RecursionError):
        raise RequestFailed(Reason.BAD_RESPONSE, "the answer is not JSON") from None


class JsonResponse(requests.Response):
    """A response that was read to its end within the limits and parsed once."""

    def __init__(self, document: Any) -> None:
        super().__init__()
        self.status_code = 200
        self.document = document

    def json(self, **_: Any) -> Any:
        """The parsed document."""
        return self.document


_MISCONFIGURED = (
    requests.exceptions.SSLError,
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
)

_thread = threading.local()
"""Session that the thread is working for: connections are made by urllib3, far from it."""


class _Connection(HTTPConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        _thread.session.watch(self.sock)
        return super().getresponse()


class _SecureConnection(HTTPSConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        _thread.session.watch(self.sock)
        return super().getresponse()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}


class BoundedSession(requests.Session):
    """A session for one thread. Requests return a `JsonResponse` or raise `RequestFailed`."""

    def __init__(
        self,
        *,
        byte_cap: int,
        parse: Parse = parse_json,
        bearer_token_file: Path | None = None,
        basic_auth: tuple[str, Path] | None = None,
        certificate_authority_file: Path | None = None,
        client_certificate: tuple[Path, Path] | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.trust_env = False
        self.verify = str(certificate_authority_file) if certificate_authority_file else True
        self.cert = (str(client_certificate[0]), str(client_certificate[1])) if client_certificate else None
        self.headers.update({**headers, "Accept-Encoding": "identity"})
        self.document: Any = None
        """Document that the last request returned (the client that asks hands out only a part of it)."""
        self._socket: socket.socket | None = None
        self._aborted = False
        self._byte_cap = byte_cap
        self._parse = parse
        self._bearer_token_file = bearer_token_file
        self._basic_auth = basic_auth
        self._adapter = _Adapter(pool_connections=1, pool_maxsize=1, max_retries=0)

    def get_adapter(self, url: str | bytes) -> _Adapter:
        """Always our own adapter: a client that mounts one with retries cannot bring them in."""
        return self._adapter

    def close(self) -> None:
        """Close the kept connection."""
        super().close()
        self._adapter.close()

    def abort(self) -> None:
        """End the request in progress, from another thread: it then fails as unreachable."""
        self._aborted = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def watch(self, opened: socket.socket | None) -> None:
        """Take note of the socket that the request in progress reads from. Called by its connection."""
        self._socket = opened
        if self._aborted:
            raise TimeoutError("aborted before the answer began")

    def request(self, method: str | bytes, url: str | bytes, **kwargs: Any) -> JsonResponse:  # type: ignore[override]
        """Ask once and read the whole answer; `RequestFailed` for everything that is not a JSON document with 200."""
        kwargs.update(stream=True, allow_redirects=False)
        kwargs["headers"] = {**(kwargs.get("headers") or {}), **self._authorization()}
        if len(urlencode(kwargs.get("params") or {})) > LONGEST_QUERY_CHARACTERS:
            method, kwargs["data"] = "POST", kwargs.pop("params")
        _thread.session = self
        self._aborted, self.document = False, None
        try:
            with super().request(method, url, **kwargs) as response:
                _refuse_status(response)
                self.document = self._parse(self._read(response))
                return JsonResponse(self.document)
        except _MISCONFIGURED as error:
            raise RequestFailed(Reason.SOURCE_MISCONFIGURED, _cause(error)) from None
        except requests.exceptions.Timeout:
            raise RequestFailed(Reason.SOURCE_UNREACHABLE, "no answer in time") from None
        except (requests.exceptions.RequestException, HTTPError, OSError, ValueError) as error:
            if type(error) is OSError and error.errno is None:
                # A file of an authority, a certificate or a key that is not there: named by its path.
                raise RequestFailed(Reason.SOURCE_MISCONFIGURED, str(error)) from None
            raise RequestFailed(Reason.SOURCE_UNREACHABLE, _cause(error)) from None
        finally:
            self._socket = None

    def _authorization(self) -> dict[str, str]:
        # NB: read for every request, because mounted tokens are rotated under a running process.
        what = "password file" if self._basic_auth else "bearer token file"
        try:
            if self._basic_auth:
                user, password_file = self._basic_auth
                both = b64encode(f"{user}:{_token(password_file)}".encode())
                return {"Authorization": f"Basic {both.decode()}"}
            return {"Authorization": f"Bearer {_token(self._bearer_token_file)}"} if self._bearer_token_file else {}
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise RequestFailed(Reason.UNAUTHORIZED, f"{what}: {why}") from None

    def _read(self, response: requests.Response) -> Iterator[bytes]:
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise RequestFailed(Reason.BAD_RESPONSE, "compressed answer although none was accepted")
        total = 0
        while chunk := response.raw.read(CHUNK_BYTES, decode_content=False):
            total += len(chunk)
            if total > self._byte_cap:
                raise AnswerTooLarge(Reason.BAD_RESPONSE, f"answer larger than {self._byte_cap} bytes")
            yield chunk


def _token(file: Path) -> str:
    """Read a token from a file, where that can be one. Raises OSError, and ValueError without any part of it."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise ValueError("it is no file")  # NB: opening a pipe would wait for ever.
    with file.open("rb") as opened:
        token = opened.read(LONGEST_TOKEN_BYTES + 1).strip()
    if not token or len(token) > LONGEST_TOKEN_BYTES:
        raise ValueError("it is too long" if token else "it is empty")
    if not all(0x21 <= byte <= 0x7E for byte in token):
        raise ValueError("it is no token")
    return token.decode()


def _cause(error: BaseException) -> str:
    """Tell what the operating system or TLS said, where it is behind the error; else the kind of error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {getattr(cause, 'verify_message', '') or cause.reason}"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        # NB: urllib3 keeps a refusal of the other side as an argument, and not as a cause.
        inner = next((argument for argument in cause.args if isinstance(argument, BaseException)), None)
        cause = cause.__cause__ or cause.__context__ or inner
    return f"connection failed: {type(error).__name__}"


def _refuse_status(response: requests.Response) -> None:
    """Raise for everything but 200, with a reason that tells whose fault it is."""
    status = response.status_code
    if status == 200:
        return
    reason, what = Reason.BAD_RESPONSE, "query refused"
    if 300 <= status < 400:
        reason, what = Reason.SOURCE_MISCONFIGURED, "redirects are not followed"
    elif status in (401, 403, 407):
        reason, what = Reason.UNAUTHORIZED, "credentials refused"
    elif status in (404, 405):
        reason, what = Reason.SOURCE_MISCONFIGURED, "no query API at this address"
    elif status == 429:
        reason, what = Reason.THROTTLED, "too many requests"
    elif status >= 500:
        reason, what = Reason.SERVER_ERROR, "server error"
    raise RequestFailed(reason, f"HTTP {status}, {what}", _retry_after_seconds(response.headers.get("Retry-After")))


def _retry_after_seconds(header: str | None) -> float:
    """Seconds of a `Retry-After` header, bounded; 0 for none, for a date and for nonsense."""
    if header is None or not header.isascii() or not header.isdigit():
        return 0.0
    return min(float(header), MAXIMUM_RETRY_AFTER_SECONDS)
