"""Runs commands in a network namespace where every address leads to a trap, and prints the trapped requests.

`unshare` makes that network: `python -m tests.faults.network_trap FOLDER`, as root. The trap is a forward
proxy at every address of IPv4 but the servers of the commands, which listen on loopback.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.evigraph import evigraph, write_cases, write_recipe
from tests.serving.fake_server import MODEL, FakeServer, Obey
from tests.serving.forward_proxy import forward_proxy

PROXIES = {
    "name": "http://proxy.example.org:8080",
    "number": "http://203.0.113.7:8080",
}
HOSTS = "127.0.0.1 localhost\n203.0.113.7 proxy.example.org\n192.0.2.10 gpu01\n"
PORTS = (80, 443, 8000, 8080)
"""Of the trap: those of the proxy, of the server that the policy allows, and of the web."""

MARK = b"procedure"
"""A word of every case."""

Words = tuple[str, ...]


def allowed(url: str) -> list[Words]:
    model = ("--model", f"vllm:{MODEL}@{url}")
    embedding = ("--embedding", f"openai:m@{url}")
    return [
        ("models", "check", f"vllm:{MODEL}@{url}"),
        ("run", "direct", "c.jsonl", *model, "--out", "direct"),
        ("resume", "direct"),
        ("retry", "direct"),
        ("run", "tamu", "c.jsonl", *model, "--recipe", "lexical.yaml", "--out", "tamu"),
        ("rerun", "tamu", "k0", "--from", "generate_answer"),
        ("run", "tamu", "c.jsonl", *model, "--recipe", "embedding.yaml", "--out", "embedded"),
        ("run", "tamu", "c.jsonl", *model, "--recipe", "lexical.yaml", "--dry-run"),
        ("run", "direct", "c.jsonl", "--model", f"openai:{MODEL}@{url}", "--out", "openai"),
        (
            "ask",
            "Why was it done?",
            "--note",
            "note.txt",
            *model,
            "--recipe",
            "lexical.yaml",
            "--out",
            "asked",
        ),
        ("demos", "build", "labelled.jsonl", "--to", "pool", *embedding),
        ("demos", "query", "procedure 1", "pool", *embedding),
        ("experiment", "grid.yaml", "--out", "grid"),
        ("index", "build", "corpus", "--out", "index", *embedding),
        ("export", "tamu", "--inspect", "--out", "frames"),
        ("status", "direct"),
        ("show", "direct"),
    ]


def refused(_: str) -> list[Words]:
    """Commands under a policy that allows their server, and not the proxy that leads there."""
    url = "http://gpu01:8000/v1"
    model, policy = ("--model", f"vllm:{MODEL}@{url}"), ("--policy", "policy.yaml")
    embedding = ("--embedding", f"openai:m@{url}")
    return [
        ("run", "direct", "c.jsonl", *model, *policy, "--out", "no1"),
        ("run", "direct", "c.jsonl", "--model", f"openai:{MODEL}@{url}", *policy, "--out", "no2"),
        ("resume", "held", *model),
        ("retry", "held", *model),
        ("ask", "Why?", "--note", "note.txt", *model, *policy, "--out", "no3"),
        ("demos", "build", "labelled.jsonl", "--to", "no4", *embedding, *policy),
        ("index", "build", "corpus", "--out", "no5", "--store", "qdrant@http://gpu01:8000", *policy),
    ]


def prepare(folder: Path, url: str) -> None:
    """Files of the commands, and a run that is held to the policy."""
    write_cases(folder / "c.jsonl", 2)
    write_recipe(folder)
    (folder / "note.txt").write_text("A drain was placed after the procedure.\n")
    (folder / "policy.yaml").write_text("name: ours\nhosts: [loopback, gpu01]\n")
    (folder / "embedding.yaml").write_text(f"system: tamu\nembedding: openai:m@{url}\n")
    model = f"vllm:{MODEL}@{url}"
    (folder / "grid.yaml").write_text(
        f"cases: c.jsonl\nrecipe: lexical.yaml\nmodel: '{model}'\ncells: {{one: {{}}}}\n"
    )
    cases = [json.loads(line) for line in (folder / "c.jsonl").read_text().splitlines()]
    labelled = [{**case, "labels": dict.fromkeys("123456", "essential")} for case in cases]
    (folder / "labelled.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in labelled))
    documents = [{"id": f"d{n}", "title": f"Procedure {n}", "text": f"On procedure {n}."} for n in range(3)]
    (folder / "documents.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in documents))
    for words in (
        ("corpus", "build", "documents.jsonl", "--out", "corpus"),
        ("run", "direct", "c.jsonl", "--model", model, "--policy", "policy.yaml", "--out", "held"),
    ):
        made = evigraph(*words, folder=folder)
        assert made.code == 0, made.err


def main(folder: Path) -> None:
    (folder / "hosts").write_text(HOSTS)
    mount = f"mount --bind {folder}/hosts /etc/hosts"
    for command in ("ip link set lo up", "ip route add local 0.0.0.0/0 dev lo", mount):
        subprocess.run(shlex.split(command), check=True)
    server = FakeServer(default=Obey())
    server.start()
    with ExitStack() as stack:
        traps = [stack.enter_context(forward_proxy(server.port, ("0.0.0.0", port))) for port in PORTS]  # noqa: S104
        for kind, proxy in PROXIES.items():
            place = folder / kind
            place.mkdir()
            prepare(place, server.url)
            variables = [
                name for one in ("http", "https", "all") for name in (f"{one}_proxy", f"{one}_PROXY")
            ]
            environment = {**{name.upper(): proxy for name in variables}, **dict.fromkeys(variables, proxy)}
            for commands in (allowed, refused):
                for words in commands(server.url):
                    asked = len(server.received)
                    ended = evigraph(*words, folder=place, environment=environment)
                    line: dict[str, Any] = {
                        "proxy": kind,
                        "kind": commands.__name__,
                        "words": words,
                        "code": ended.code,
                        "err": ended.err,
                        "asked": len(server.received) - asked,
                        "outside": [address for trap in traps for address in trap.reached],
                        "texts": sum(MARK in body for trap in traps for body in trap.bodies),
                    }
                    sys.stdout.write(f"{json.dumps(line)}\n")
                    sys.stdout.flush()
                    for trap in traps:
                        trap.reached.clear()
                        trap.bodies.clear()
    server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
