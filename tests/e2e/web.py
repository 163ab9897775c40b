"""A minimal HTTP client on Python's standard library."""

import functools
import json
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict

    def expect(self, *statuses):
        assert self.status in statuses, f"{self.status} {self.body}"
        return self.body


class _Stay(urllib.request.HTTPRedirectHandler):
    """Returns redirects as responses."""

    def redirect_request(self, *_):
        return None


@functools.cache
def _opener_that_trusts(ca_file):
    # The proxies of the environment do not apply to the loopback.
    handlers = [_Stay, urllib.request.ProxyHandler({})]
    if ca_file is not None:
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_file)))
    return urllib.request.build_opener(*handlers)


_opener = _opener_that_trusts(None)


def request(method, url, *, token=None, json_body=None, form=None, headers=None, ca_file=None, timeout_s=30):
    """Sends a request and returns the response, whatever its status. With `ca_file`, trusts only
    that CA."""
    headers = {"Accept": "application/json", **(headers or {})}
    data = None
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if json_body is not None:
        data, headers["Content-Type"] = json.dumps(json_body).encode(), "application/json"
    if form is not None:
        data, headers["Content-Type"] = urllib.parse.urlencode(form).encode(), "application/x-www-form-urlencoded"
    message = urllib.request.Request(url, method=method, data=data, headers=headers)
    try:
        with _opener_that_trusts(ca_file).open(message, timeout=timeout_s) as response:
            return _answer(response)
    except urllib.error.HTTPError as error:
        with error:
            return _answer(error)


def _answer(response):
    text = response.read()
    try:
        body = json.loads(text) if text else None
    except ValueError:
        body = text.decode(errors="replace")
    return Answer(response.status, body, dict(response.headers))


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
