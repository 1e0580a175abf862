"""Pools of demonstrations on a Chroma server, which several machines share."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import numpy as np
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay
from tenacity.wait import wait_exponential_jitter

from retrieval.pools.neighbours import Records
from serving.addresses import redacted
from serving.errors import CallError, ModelError, classify
from serving.gate import demand_host, hold
from serving.keys import api_key, check_address
from serving.limits import DEFAULT_MAX_OUTAGE_S
from serving.policy import HeldPolicy
from serving.traffic import Traffic, count

TOKEN_VARIABLE = "CHROMA_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token of a server that wants one."""

DEFAULT_COLLECTION = "demonstrations"

logger = logging.getLogger("evigraph.retrieval")

_DATABASE = "/api/v2/tenants/default_tenant/databases/default_database/collections"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,400}[A-Za-z0-9]")
_CONNECT_S, _ANSWER_S = 5.0, 60.0
_OPENING_S = 5.0
"""How long a server may be away while a pool is opened: a wrong address is to be found out soon."""

_BACKOFF = wait_exponential_jitter(initial=0.25, max=10, jitter=0.5)
_PAGE = 1000
ALL_FIELDS = ["documents", "metadatas", "embeddings"]
"""Of a record, beside its id."""


@dataclass(frozen=True, slots=True)
class PoolAddress:
    """A collection of a server.

    Attributes:
        url: Of the server alone.
        collection: Names the pool there.
    """

    url: str
    collection: str

    def __str__(self) -> str:
        return f"{self.url}/{self.collection}"


def parse_pool_address(text: str) -> PoolAddress:
    """Parse `http://host:port[/COLLECTION]`.

    Raises:
        ModelError: It is none, or holds a secret.
    """
    shown = redacted(text)
    check_address(text, f"demonstrations {text!r}", TOKEN_VARIABLE)
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ModelError(
            f"demonstrations {shown!r}: no URL of a Chroma server, such as http://host:8000/{DEFAULT_COLLECTION}"
        )
    name = parts.path.strip("/") or DEFAULT_COLLECTION
    if not _NAME.fullmatch(name):
        raise ModelError(
            f"demonstrations {shown!r}: {name!r} is no name of a collection: 3 or more letters, digits, dots,"
            " underscores and hyphens"
        )
    return PoolAddress(f"{parts.scheme}://{parts.netloc}", name)


class Server:
    """A Chroma server; safe to use from several threads.

    No environment variable sets a proxy, and redirects are not followed.
    """

    def __init__(self, address: PoolAddress) -> None:
        """Take an address and the token of the environment.

        Raises:
            ModelError: The token has a character that no header can hold.
            PolicyError: No text may go to the host.
        """
        self.address = address
        self._demand()
        token = api_key(TOKEN_VARIABLE)
        self._client = httpx.Client(
            base_url=address.url,
            # Servers and their proxies look for either.
            headers={"authorization": f"Bearer {token}", "x-chroma-token": token} if token else {},
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
            # Asked now and then; a connection that waits is one that a restart cuts off.
            limits=httpx.Limits(max_keepalive_connections=0),
            verify=ssl.create_default_context(),
            trust_env=False,
            follow_redirects=False,
        )

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, patience: float = _OPENING_S
    ) -> Any:
        """One request, tried again while the server is away for up to `patience` seconds.

        Raises:
            CallError: It does not answer, or refuses; one line with the address.
            PolicyError: No text may go to it.
        """
        attempts = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, CallError) and error.retryable),
            wait=_BACKOFF,
            stop=stop_after_delay(patience),
            before_sleep=self._note,
            reraise=True,
        )
        return attempts(self._once, method, path, body)

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        self._demand()
        content = None if body is None else json.dumps(body).encode()
        count(self.address.url, Traffic(1, 0, len(content or b"")))
        try:
            answer = self._client.request(
                method, _DATABASE + path, content=content, headers={"content-type": "application/json"}
            )
            answer.raise_for_status()
            count(self.address.url, Traffic(0, 1, 0, len(answer.content)))
            return answer.json()
        except (httpx.HTTPError, ValueError) as error:
            failure = classify(error)
            if isinstance(error, httpx.HTTPStatusError) and error.response.status_code in (401, 403):
                failure = CallError(
                    "internal", f"the server refuses the token of {TOKEN_VARIABLE}, or wants one"
                )
            raise failure.at(f"demonstrations at {self.address}") from error

    def _demand(self) -> None:
        demand_host(self.address.url, f"demonstrations at {self.address}")

    def _note(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        logger.info("%s; asked again in %.1f s", error, state.upcoming_sleep)


class ServedView:
    """A view of a pool, with the interface of Chroma's own collections as far as a pool needs it."""

    def __init__(self, server: Server, id_: str) -> None:
        self._server = server
        self._path = f"/{id_}"

    def get(self, *, patience: float = DEFAULT_MAX_OUTAGE_S, **wanted: Any) -> Records:
        """All records that fit.

        Raises:
            CallError: The server has been away for too long, or the view is gone.
        """
        pages = [*self.pages(patience=patience, **wanted)]
        return {
            name: None if pages[0].get(name) is None else [one for page in pages for one in page[name]]
            for name in ("ids", "documents", "metadatas", "embeddings")
        }

    def query(self, **wanted: Any) -> Records:
        """The nearest records, by the server's index.

        Raises:
            CallError: The server has been away for too long, or the view is gone.
        """
        found: Records = self._server.ask(
            "POST", f"{self._path}/query", wanted, patience=DEFAULT_MAX_OUTAGE_S
        )
        return found

    def pages(self, *, patience: float = _OPENING_S, **wanted: Any) -> Iterator[Records]:
        """All records that fit, some at a time; one page at least."""
        for offset in range(0, 1 << 62, _PAGE):
            page = self._server.ask(
                "POST",
                f"{self._path}/get",
                {**wanted, "limit": _PAGE, "offset": offset},
                patience=patience,
            )
            yield page
            if len(page["ids"]) < _PAGE:
                return


class ServedPool:
    """A pool on a server, found and checked.

    A collection of the pool's name holds no records: its metadata say which collections are the views, so
    that another pool takes its place in one step.
    """

    def __init__(self, text: str, views: Sequence[str]) -> None:
        """Find a pool.

        Raises:
            CallError: The server does not answer, or refuses.
            ModelError: It has no such pool.
            PolicyError: No text may go to the host, by the user's word or by the pool's own policy.
        """
        self.address = parse_pool_address(text)
        self._server = Server(self.address)
        found = find_collection(self._server, self.address.collection)
        if found is None:
            raise ModelError(
                f"no demonstration pool at {self.address}: put one there with"
                f" `evigraph demos push POOL {self.address}`"
            )
        try:
            self.metadata: dict[str, Any] = json.loads(found["metadata"]["evigraph"])
            names = {view: self.metadata["views"][view] for view in views}
            hold([HeldPolicy.model_validate(one) for one in self.metadata["policies"]])
        except (KeyError, TypeError, ValueError):
            raise ModelError(
                f"the collection {self.address} is no demonstration pool: name another, or put one there with"
                " `evigraph demos push`"
            ) from None
        self.views: dict[str, ServedView] = {}
        for view, name in names.items():
            stored = find_collection(self._server, name)
            if stored is None:
                raise ModelError(f"the pool at {self.address} lacks its part {name}: push it again")
            self.views[view] = ServedView(self._server, stored["id"])

    def read(self) -> Iterator[tuple[str, Records]]:
        """All records with their view, some at a time, and held against what was pushed at the end.

        Raises:
            CallError: The server does not answer.
            ModelError: They are others than were pushed.
        """
        seen = ContentHash()
        for view, stored in self.views.items():
            for page in stored.pages(include=ALL_FIELDS):
                seen.add(view, page)
                yield view, page
        if seen.hexdigest() != self.metadata["content"]:
            raise ModelError(
                f"the pool at {self.address} has changed since it was pushed: push it again, to a collection"
                " that nothing else writes"
            )


class ContentHash:
    """A hash of records that does not depend on their order."""

    def __init__(self) -> None:
        self._digests: list[bytes] = []

    def add(self, view: str, records: Records) -> None:
        """Ids, documents, metadata, and vectors bit for bit."""
        rows = zip(*(records[name] for name in ("ids", "documents", "metadatas", "embeddings")), strict=True)
        for id_, document, metadata, vector in rows:
            digest = hashlib.sha256(json.dumps([view, id_, document, metadata], sort_keys=True).encode())
            digest.update(np.asarray(vector, dtype="<f4").tobytes())
            self._digests.append(digest.digest())

    def hexdigest(self) -> str:
        """Of all together."""
        return hashlib.sha256(b"".join(sorted(self._digests))).hexdigest()


def find_collection(server: Server, name: str) -> dict[str, Any] | None:
    """A collection as the server describes it; None where there is none of the name.

    Raises:
        CallError: It does not answer, or refuses.
    """
    try:
        found: dict[str, Any] = server.ask("GET", f"/{quote(name, safe='')}")
    except CallError as error:
        cause = error.__cause__
        if isinstance(cause, httpx.HTTPStatusError) and cause.response.status_code == 404:
            return None
        raise
    return found
