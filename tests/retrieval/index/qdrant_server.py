"""Qdrant's own protocol on loopback: as much of it as an index asks for, answered by its client in memory."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from qdrant_client import QdrantClient, models


class _Handler(BaseHTTPRequestHandler):
    client: QdrantClient
    lock: threading.Lock

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._reply({"exists": self.client.collection_exists(self._name())})

    def do_PUT(self) -> None:
        body = self._body()
        with self.lock:
            if "points" in self.path:
                self.client.upsert(self._name(), models.Batch(**body["batch"]))
            else:
                self.client.create_collection(
                    self._name(), vectors_config=models.VectorParams(**body["vectors"])
                )
        self._reply({"operation_id": 0, "status": "completed"} if "points" in self.path else True)

    def do_POST(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        with self.lock:
            if path.endswith("/count"):
                self._reply({"count": self.client.count(self._name()).count})
            elif path.endswith("/query"):
                query = body["query"]["nearest"]
                found = self.client.query_points(self._name(), query=query, limit=body["limit"])
                self._reply({"points": [point.model_dump() for point in found.points]})
            else:
                records = self.client.retrieve(
                    self._name(), body["ids"], with_vectors=bool(body.get("with_vector"))
                )
                self._reply([record.model_dump() for record in records])

    def _name(self) -> str:
        return self.path.partition("?")[0].split("/")[2]

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _reply(self, result: object) -> None:
        content = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextlib.contextmanager
def qdrant_server() -> Iterator[str]:
    """Its URL, while it serves."""
    client = QdrantClient(":memory:")
    handler = type("Handler", (_Handler,), {"client": client, "lock": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        client.close()
