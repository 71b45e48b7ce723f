"""A schema registry over HTTP: the endpoints that clients use, in memory, at a port of 127.0.0.1."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from syncline.pipeline.registry import schemas


class SchemaServer:
    """What is registered, and the address; `user` asks every request for these credentials."""

    def __init__(self, user: str | None = None) -> None:
        self.user = user
        self.schemas: list[dict[str, Any]] = []
        # Ids by version, from version 1 on.
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.queries: list[str] = []
        self.url = ""
        # Instead of any answer.
        self.says: str | None = None

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Return the id of a schema, which is that of an equal one."""
        kept = {"schemaType": "AVRO", "references": [], **schema}
        if kept not in self.schemas:
            self.schemas.append(kept)
        schema_id = self.schemas.index(kept) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return status and content."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"]:
            number = int(parts[2])
            return self._found(number) if 0 < number <= len(self.schemas) else _missing(40403, f"Schema {number}")
        subject, rest = parts[1], parts[2:]
        if method == "POST" and rest == ["versions"]:
            return 200, {"id": self.register(subject, body)}
        versions = self.subjects.get(subject)
        if versions is None:
            return _missing(40401, f"Subject '{subject}'")
        if method == "POST":
            wanted = {"schemaType": "AVRO", "references": [], **body}
            return self._version(subject, versions.index(self.schemas.index(wanted) + 1) + 1)
        version = len(versions) if rest[1] == "latest" else int(rest[1])
        return self._version(subject, version) if version <= len(versions) else _missing(40402, f"Version {version}")

    def _found(self, number: int) -> tuple[int, Any]:
        return 200, self.schemas[number - 1]

    def _version(self, subject: str, version: int) -> tuple[int, Any]:
        number = self.subjects[subject][version - 1]
        return 200, {"subject": subject, "version": version, "id": number, **self.schemas[number - 1]}


def _missing(code: int, what: str) -> tuple[int, Any]:
    return 404, {"error_code": code, "message": f"{what} not found."}


@contextmanager
def schema_server(user: str | None = None) -> Iterator[SchemaServer]:
    """Serve until the end of the block."""
    # An earlier server may have had the same port, and schemas are remembered by the address that they came from.
    schemas._fetched.clear()
    registry = SchemaServer(user)
    wanted = None if user is None else "Basic " + base64.b64encode(user.encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer("GET", None)

        def do_POST(self) -> None:
            self._answer("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, method: str, body: Any) -> None:
            _, _, path, query, _ = urlsplit(self.path)
            registry.asked.append(f"{method} {path}")
            registry.queries.append(query)
            if wanted is not None and self.headers.get("Authorization") != wanted:
                status, content = 401, {"error_code": 40101, "message": "Unauthorized"}
            else:
                status, content = registry.answer(method, path, body)
            if registry.says is not None:
                status = 200
            data = (json.dumps(content) if registry.says is None else registry.says).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
