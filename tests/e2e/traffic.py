"""HTTPS clients that commit to one table, each commit on a new connection, and record the
outcomes."""

import http.client
import json
import socket
import ssl
import time
import uuid
from urllib.parse import urlsplit


class Commits:
    """Commits that each set a uniquely named property, so that the table shows which ones were
    applied."""

    def __init__(self, uri, path, token, ca_file):
        self._address = (urlsplit(uri).hostname, urlsplit(uri).port)
        self._path = path
        self._token = token
        self._trust = ssl.create_default_context(cafile=ca_file)
        # Property names by the outcome of their commits. Nothing was sent for those without a
        # connection. Those without a response may have been applied or not.
        self.acknowledged, self.never_let_in, self.unanswered = [], [], []
        self.refusals = []
        # Serial numbers of the server certificates, in the order of the connections.
        self.serials = []

    def __call__(self):
        name = uuid.uuid4().hex
        connection = http.client.HTTPSConnection(*self._address, context=self._trust, timeout=30)
        try:
            connection.connect()
        except OSError:
            self.never_let_in.append(name)
            # Avoid a busy loop while the server is down.
            time.sleep(0.01)
            return
        try:
            self.serials.append(connection.sock.getpeercert()["serialNumber"])
            connection.request("POST", self._path, self._body(name), self._headers())
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self.unanswered.append(name)
        else:
            self._answered(name, answer.status, body)
        finally:
            connection.close()

    def _answered(self, name, status, body):
        if status == 200 and json.loads(body)["metadata"]["properties"][name]:
            self.acknowledged.append(name)
        else:
            self.refusals.append((status, body))

    def _body(self, name):
        updates = [{"action": "set-properties", "updates": {name: "here"}}]
        return json.dumps({"requirements": [], "updates": updates}).encode()

    def _headers(self):
        return {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}

    def begin(self):
        """Starts a commit and withholds its body, for which the server waits."""
        return Begun(self)


class Begun:
    """A request whose body the server has requested with `100 Continue`."""

    def __init__(self, commits):
        self._commits = commits
        self.name = uuid.uuid4().hex
        self._body = commits._body(self.name)
        headers = {"Host": "slateberg", "Content-Length": len(self._body), "Expect": "100-continue", **commits._headers()}
        head = [f"POST {commits._path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        plain = socket.create_connection(commits._address, timeout=30)
        self._socket = commits._trust.wrap_socket(plain, server_hostname=commits._address[0])
        self._socket.sendall("\r\n".join(head).encode())
        interim = self._socket.recv(1024)
        assert interim.startswith(b"HTTP/1.1 100 "), interim

    def finish(self):
        """Sends the rest of the body and reads the response."""
        self._socket.sendall(self._body)
        answer = http.client.HTTPResponse(self._socket, method="POST")
        answer.begin()
        self._commits._answered(self.name, answer.status, answer.read())
        self._socket.close()
