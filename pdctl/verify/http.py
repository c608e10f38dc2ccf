"""One JSON request to a door of the cluster."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

from pdctl.errors import UnhealthyError

TIMEOUT_S = 120.0
SHOWN = 300  # bytes of an answer that stand in an error


class StatusError(UnhealthyError):
    """An answer with another status than 200."""

    def __init__(self, asked: str, status: int, body: bytes, *, where: str, hint: str | None) -> None:
        self.status = status
        self.body = body
        self.said = _said(body)
        super().__init__(f"{asked} answered {status}: {self.said}", where=where, hint=hint)


class Client:
    """Requests to one server at `connect_to`; `name` and `hint` stand in errors."""

    def __init__(
        self,
        name: str,
        connect_to: tuple[str, int],
        timeout_s: float = TIMEOUT_S,
        hint: str | None = None,
    ) -> None:
        self.name = name
        self.hint = hint
        self._connect_to = connect_to
        self._timeout_s = timeout_s

    def get(self, path: str) -> bytes:
        return self._ask("GET", path, None)[0]

    def get_json(self, path: str) -> Any:
        return self._json(self.get(path), path)

    def post(self, path: str, body: Mapping[str, Any]) -> tuple[Any, Mapping[str, str]]:
        """The parsed answer and its headers in lower case. Raises UnhealthyError for anything but 200."""
        data, headers = self._ask("POST", path, json.dumps(body).encode())
        return self._json(data, path), headers

    def _ask(self, method: str, path: str, body: bytes | None) -> tuple[bytes, Mapping[str, str]]:
        host, port = self._connect_to
        connection = http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            said = f"{method} {path} failed: {error or type(error).__name__}"
            raise UnhealthyError(said, where=self.name, hint=self.hint) from None
        finally:
            connection.close()
        if answer.status != 200:
            asked = f"{method} {path}"
            raise StatusError(asked, answer.status, data, where=self.name, hint=self.hint)
        return data, {name.lower(): value for name, value in answer.getheaders()}

    def _json(self, data: bytes, path: str) -> Any:
        try:
            return json.loads(data)
        except ValueError:
            said = f"{path} did not answer with JSON: {_short(data)}"
            raise UnhealthyError(said, where=self.name, hint=self.hint) from None


def _said(data: bytes) -> str:
    """The message of an OpenAI error object, whole; else the beginning of whatever came."""
    try:
        return _printable(str(json.loads(data)["error"]["message"]))
    except (ValueError, LookupError, TypeError):
        return _short(data)


def _short(data: bytes) -> str:
    return _printable(data[:SHOWN].decode(errors="replace")) or "nothing"


def _printable(text: str) -> str:
    """One line that does nothing to a terminal."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
