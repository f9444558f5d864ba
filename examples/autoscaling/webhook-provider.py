#!/usr/bin/env python3
"""A webhook provider of Phalanx: it answers each call with the output of a program, such as exec-provider.py.

    webhook-provider.py --token-file token --certificate server.crt --key server.key -- ./exec-provider.py machines.json

Callers need the token. Without a certificate the server listens on 127.0.0.1 alone."""

from __future__ import annotations

import argparse
import hmac
import json
import ssl
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MOST_BYTES, SECONDS = 1 << 20, 30


def handler(token: str, command: list[str]) -> type[BaseHTTPRequestHandler]:
    """Return the handler of a server with this token and program."""

    class Calls(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("content-length") or 0), MOST_BYTES))
            given = self.headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                self.answer(401, b"the token is wrong")
                return
            try:
                call = json.loads(body)
                argv = [*command, str(call["call"]), str(call["group"])]
                done = subprocess.run(argv, check=False, input=body, capture_output=True, timeout=SECONDS)
            except (ValueError, KeyError, TypeError, OSError, subprocess.SubprocessError) as error:
                self.answer(500, str(error).encode())
                return
            self.answer(500, done.stderr[-500:]) if done.returncode else self.answer(200, done.stdout)

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8443)
    parser.add_argument("--token-file", type=Path, required=True)
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("command", nargs="+")
    said = parser.parse_args()
    host = "0.0.0.0" if said.certificate else "127.0.0.1"  # noqa: S104 (it has TLS, and asks for a token)
    server = ThreadingHTTPServer((host, said.port), handler(said.token_file.read_text().strip(), said.command))
    if said.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(said.certificate, said.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(f"listening on {host}:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
