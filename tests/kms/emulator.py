"""An emulator of AWS KMS, behind a proxy that simulates outages."""

import http.client
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from processes import Process
from web import free_port

REGION = "eu-central-1"


class Emulator:
    """moto's server. It does not persist its keys."""

    def __init__(self, directory):
        self.port = free_port()
        command = [os.environ["MOTO_SERVER"], "--host", "127.0.0.1", "--port", str(self.port)]
        self._process = Process(command, directory / "moto.log")
        self._process.wait_until(self._answers, 60)

    def _answers(self):
        try:
            return self.ask("ListKeys", {}) is not None
        except OSError:
            return False

    def ask(self, operation, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("POST", "/", json.dumps(body), headers(operation))
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return json.loads(text)

    def make_key(self):
        return self.ask("CreateKey", {})["KeyMetadata"]["Arn"]

    def stop(self):
        self._process.stop()


def headers(operation):
    return {
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": f"TrentService.{operation}",
        # The emulator reads the region from this header and verifies no signature.
        "Authorization": f"AWS4-HMAC-SHA256 Credential=x/20260101/{REGION}/kms/aws4_request, SignedHeaders=host, Signature=x",
    }


class Door:
    """Forwards requests, unless the test simulates an outage."""

    def __init__(self, emulator):
        self.is_shut = False
        self.hangs_s = 0
        # ARNs of keys for which the proxy responds like AWS KMS for disabled keys.
        self.disabled = set()
        self.operations = []
        door = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if door.hangs_s:
                    time.sleep(door.hangs_s)
                if door.is_shut:
                    self.close_connection = True
                    self.connection.close()
                    return
                door.operations.append(self.headers["X-Amz-Target"].split(".")[1])
                if json.loads(body).get("KeyId") in door.disabled:
                    refusal = {"__type": "DisabledException", "message": "the key is disabled"}
                    return self._answer(400, json.dumps(refusal).encode())
                connection = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=10)
                passed = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                connection.request("POST", "/", body, passed)
                answer = connection.getresponse()
                self._answer(answer.status, answer.read())

            def _answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
