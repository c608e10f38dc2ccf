"""One JSON request to a door of the cluster."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

from pdctl.errors import UnhealthyError

TIMEOUT_S = 120.0


class Client:
    """Requests to one server at `connect_to`; `name` stands in errors."""

    def __init__(self, name: str, connect_to: tuple[str, int], timeout_s: float = TIMEOUT_S) -> None:
        self.name = name
        self._connect_to = connect_to
        self._timeout_s = timeout_s

    def get(self, path: str) -> bytes:
        return self._ask("GET", path, None)[0]

    def get_json(self, path: str) -> Any:
        return _json(self.get(path), self.name, path)

    def post(self, path: str, body: Mapping[str, Any]) -> tuple[Any, Mapping[str, str]]:
        """The parsed answer and its headers in lower case. Raises UnhealthyError for anything but 200."""
        data, headers = self._ask("POST", path, json.dumps(body).encode())
        return _json(data, self.name, path), headers

    def _ask(self, method: str, path: str, body: bytes | None) -> tuple[bytes, Mapping[str, str]]:
        host, port = self._connect_to
        connection = http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise UnhealthyError(
                f"{method} {path} failed: {error or type(error).__name__}", where=self.name
            ) from None
        finally:
            connection.close()
        if answer.status != 200:
            raise UnhealthyError(f"{method} {path} answered {answer.status}: {_short(data)}", where=self.name)
        return data, {name.lower(): value for name, value in answer.getheaders()}


def _json(data: bytes, name: str, path: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise UnhealthyError(f"{path} did not answer with JSON: {_short(data)}", where=name) from None


def _short(data: bytes) -> str:
    return " ".join(data[:300].decode(errors="replace").split()) or "nothing"
