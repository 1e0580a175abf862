"""Object storage, reached through fsspec: the gate is asked about its host before anything is sent."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from serving.policy.gate import demand_route
from serving.policy.policy import PolicyError
from serving.protocol.addresses import environment_proxy, host_of, proxy_of, redacted
from serving.protocol.errors import ModelError
from serving.protocol.keys import check_address
from storage.private import replace_file


class StorageError(ModelError):
    """Object storage that cannot be used, in one line."""


class _Protocol(NamedTuple):
    """Requirements of a kind of storage.

    Attributes:
        package: That fsspec reaches it by.
        install: How a user gets that.
        key: Where a secret belongs.
    """

    package: str
    install: str
    key: str


_S3 = _Protocol("s3fs", "-e '.[storage]' in the clone", "AWS_SECRET_ACCESS_KEY or a profile of AWS")
_GS = _Protocol("gcsfs", "fsspec gcsfs", "GOOGLE_APPLICATION_CREDENTIALS")
_AZURE = _Protocol("adlfs", "fsspec adlfs", "AZURE_STORAGE_ACCOUNT_KEY")
_FILE = _Protocol("fsspec", "-e '.[storage]' in the clone", "")
_PROTOCOLS: Mapping[str, _Protocol] = {
    **{name: _S3 for name in ("s3", "s3a")},
    **{name: _GS for name in ("gs", "gcs")},
    **{name: _AZURE for name in ("abfs", "az")},
    # A bucket that is mounted.
    "file": _FILE,
}

_SECRETS = (
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"),
)
_MAX_SAID = 300
"""Maximum characters of a server's or library's message."""

_MARKS = ("ETag", "etag", "VersionId", "generation", "md5Hash", "content_settings", "LastModified", "mtime")
"""Metadata of objects that changes when they are rewritten."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FullDiskError(StorageError):
    """The disk is too full for the download."""


class Stored(NamedTuple):
    """Metadata of a stored object.

    Attributes:
        size: In bytes.
        mark: Another one for other content, where the storage has such a thing.
    """

    size: int
    mark: str


class ObjectStore:
    """Objects below one URL of object storage.

    Credentials come from the environment and the provider's own files alone.
    """

    def __init__(self, text: str, *, sends: bool) -> None:
        """Find out the host, ask the gate about it, and load what reaches it; nothing is sent yet.

        Args:
            text: Such as `s3://BUCKET/PREFIX`.
            sends: Whether texts of cases are going to be sent there, and not only fetched.

        Raises:
            StorageError: It is not a storage URL, holds a secret, or needs a package that is not installed.
            PolicyError: A policy forbids the host, or the user has not allowed it.
        """
        self.url = text.rstrip("/")
        self._sends = sends
        protocol, bucket = parse_url(text)
        self._origins = _origins_by_name(protocol, bucket)
        proxy = self.demand()
        self._kind = kind = _PROTOCOLS[protocol]
        for package in dict.fromkeys(("fsspec", kind.package)):
            if find_spec(package) is None:
                raise StorageError(f"{protocol}:// needs {package}: pip install {kind.install}")
        if kind is _GS:
            # Else it asks what kind of bucket this is by gRPC, whose connections pass by the gate's wall.
            os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        # With its own tables of protocols; each of them is loaded when it is asked for.
        from fsspec.core import url_to_fs

        options: dict[str, Any] = {"auto_mkdir": True} if kind is _FILE else {}
        if kind is _GS:
            options["session_kwargs"] = {"proxy": proxy, "trust_env": False}
        with self._in_words(""):
            self._files, self._root = url_to_fs(
                self.url, skip_instance_cache=True, use_listings_cache=False, **options
            )
            if kind is _S3:
                self._origins = [_origin_of_bucket(self._files, bucket)]
                proxy = self.demand()
                # It connects at its first request. Without any of ours it would look for some itself.
                proxies = dict.fromkeys(("http", "https"), proxy) if proxy else {}
                self._files.config_kwargs = {**self._files.config_kwargs, "proxies": proxies}

    def demand(self) -> str | None:
        """Ask the gate about the host: also again, as policies may have come since.

        Returns:
            The proxy that leads there.

        Raises:
            PolicyError: A policy forbids the host or its proxy, or the user has not allowed it.
        """
        proxies = [
            demand_route(origin, f"object storage {self.url}", consent=self._sends)
            for origin in self._origins
        ]
        return proxies[0] if proxies else None

    def read(self, name: str, most: int) -> bytes | None:
        """A small object; None where there is none.

        Raises:
            StorageError: It cannot be read, or has more bytes than `most`.
        """
        with self._in_words(name):
            try:
                content: bytes = self._files.cat_file(self._path(name), start=0, end=most + 1)
            except FileNotFoundError as error:
                if _code(error) == "NoSuchBucket":
                    raise
                return None
            if len(content) > most:
                raise StorageError(f"{self.url}/{name}: has more than {most:,} bytes")
            return content

    def size(self, name: str) -> int | None:
        """Bytes of an object; None where there is none.

        Raises:
            StorageError: It cannot be asked.
        """
        found = self.look(name)
        return found and found.size

    def look(self, name: str) -> Stored | None:
        """Metadata of an object; None if it does not exist.

        Raises:
            StorageError: Requests fail, or the bucket does not exist.
        """
        with self._in_words(name):
            try:
                found = self._files.info(self._path(name))
            except FileNotFoundError as error:
                if _code(error) == "NoSuchBucket":
                    raise
                return None
            if found["type"] != "file":
                return None
            return Stored(int(found["size"]), repr([found.get(mark) for mark in _MARKS]))

    def names(self) -> list[str]:
        """Names of the objects directly below the URL.

        Raises:
            StorageError: Requests fail, or the bucket does not exist.
        """
        with self._in_words(""):
            try:
                found = self._files.ls(self._root, detail=True)
            except FileNotFoundError as error:
                if _code(error) == "NoSuchBucket":
                    raise
                return []
            return sorted(
                name.rpartition("/")[2]
                for one in found
                if one["type"] == "file" and (name := str(one["name"])).rstrip("/") != self._root.rstrip("/")
            )

    def write(self, name: str, content: bytes) -> None:
        """Write a small object, in one step.

        Raises:
            StorageError: It cannot be written.
        """
        with self._in_words(name):
            if self._kind is _FILE:
                # It would leave half of it on a full disk.
                path = Path(self._path(name))
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, [content])
            else:
                self._files.pipe_file(self._path(name), content)

    def put(self, source: Path, name: str) -> None:
        """Upload a file.

        Raises:
            StorageError: It cannot be read or written.
        """
        with self._in_words(name):
            self._files.put_file(str(source), self._path(name))

    def get(self, name: str, target: Path, step: Callable[[int], object] | None = None) -> bool:
        """Download an object to a file, whose rights stay as they are; whether there is one.

        Raises:
            StorageError: It cannot be read or written; a `FullDiskError` if the disk is full.
        """
        from fsspec.callbacks import Callback

        hooks = {} if step is None else {"step": lambda size, value, **_: step(value)}
        # s3fs keeps ten pieces of 50 MB in memory otherwise, and begins none of them again.
        how = {"max_concurrency": 1} if self._kind is _S3 else {}
        with self._in_words(name):
            try:
                self._files.get_file(self._path(name), str(target), callback=Callback(hooks=hooks), **how)
            except FileNotFoundError:
                return False
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                words = f"{self.url}/{name}: cannot be written to this disk: {error.strerror}"
                raise FullDiskError(words) from error
            return True

    def remove(self, name: str) -> None:
        """Remove an object, if it is there.

        Raises:
            StorageError: It cannot be removed.
        """
        with self._in_words(name), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @contextlib.contextmanager
    def _in_words(self, name: str) -> Iterator[None]:
        try:
            yield
        except ModelError:
            raise
        except Exception as error:
            place = f"{self.url}/{name}" if name else self.url
            raise _failure(place, error) from error


def parse_url(text: str) -> tuple[str, str]:
    """The protocol, and the bucket or container.

    Raises:
        StorageError: It is not a storage URL, or contains a secret.
    """
    protocol = text.partition("://")[0].lower()
    kind = _PROTOCOLS.get(protocol)
    if "://" not in text or kind is None:
        raise StorageError(
            f"{redacted(text)!r}: no URL of object storage; write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX,"
            " abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX, or file:///FOLDER of a bucket that is"
            " mounted"
        )
    place = text.partition("://")[2]
    container, at, rest = place.partition("@")
    # In Azure addresses the container precedes an @.
    named = kind is _AZURE and at and not {":", "/"} & set(container)
    if kind is not _FILE:
        check_address(rest if named else place, repr(text), kind.key)
    try:
        bucket = urlsplit(text).netloc
    except ValueError:
        bucket = ""
    if bool(bucket) is (kind is _FILE):
        raise StorageError(f"{text!r}: it names {'a host' if bucket else 'no bucket'}")
    return protocol, bucket


def _origins_by_name(protocol: str, bucket: str) -> list[str]:
    """Origins from environment and configuration, for kinds that need no package for it."""
    kind = _PROTOCOLS[protocol]
    if kind is _GS:
        own = _configured(protocol, "endpoint_url") or os.environ.get("STORAGE_EMULATOR_HOST")
        domain = os.environ.get("GOOGLE_CLOUD_UNIVERSE_DOMAIN") or "googleapis.com"
        return [_origin(own or f"storage.{domain}")]
    if kind is _AZURE:
        return _origins_of_azure(protocol, bucket)
    return []


def _origins_of_azure(protocol: str, bucket: str) -> list[str]:
    def known(option: str) -> str:
        return _configured(protocol, option) or os.environ.get(f"AZURE_STORAGE_{option.upper()}", "")

    account = bucket.partition("@")[2].partition(".")[0] or known("account_name")
    fields = dict(part.partition("=")[::2] for part in known("connection_string").split(";"))
    hosts = [one for one in (fields.get("BlobEndpoint"), _configured(protocol, "account_host")) if one]
    if fields.get("AccountName") and "BlobEndpoint" not in fields:
        scheme = fields.get("DefaultEndpointsProtocol") or "https"
        suffix = fields.get("EndpointSuffix") or "core.windows.net"
        hosts.append(f"{scheme}://{fields['AccountName']}.blob.{suffix}")
    if account and not _configured(protocol, "account_host"):
        hosts.append(f"{account}.blob.core.windows.net")
    if not hosts:
        raise StorageError(
            f"{protocol}://{bucket}: no account is named; write"
            f" {protocol}://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX, or set AZURE_STORAGE_ACCOUNT_NAME"
        )
    origins = [*map(_origin, hosts)]
    for origin in origins:
        if environment_proxy(origin) and proxy_of(origin) is None:
            raise StorageError(
                f"{protocol}://{bucket}: Azure's client would ask the proxy of the environment for"
                f" {host_of(origin)}; name that host in no_proxy"
            )
    return origins


def _configured(protocol: str, option: str) -> str:
    """An option of fsspec's configuration, which is files and variables of the user."""
    if find_spec("fsspec") is None:
        return ""
    from fsspec.config import conf

    names = [name for name, kind in _PROTOCOLS.items() if kind is _PROTOCOLS[protocol]]
    return next((str(conf[name][option]) for name in names if conf.get(name, {}).get(option)), "")


def _origin(address: str) -> str:
    """Scheme, host and port of an address, which has HTTPS where it names no scheme."""
    url = address if "://" in address else f"https://{address}"
    return f"{url.partition('://')[0].lower()}://{host_of(url) or address}"


class _NotSentError(Exception):
    """A request that was only to be addressed."""


def _origin_of_bucket(files: Any, bucket: str) -> str:
    """Origin of requests for an S3 bucket: depends on region, endpoint, profile and style.

    botocore addresses a request, from the same values as s3fs gives it, and is kept from sending it. Keys of
    no use spare it the search for some, which may ask servers.
    """
    from botocore.config import Config
    from botocore.session import Session

    addressed: list[str] = []

    def keep_back(request: Any, **_: object) -> None:
        addressed.append(_origin(request.url))
        raise _NotSentError

    given = {name: value for name, value in files.client_kwargs.items() if not name.startswith("aws_")}
    if files.endpoint_url:
        given["endpoint_url"] = files.endpoint_url
    client = Session(**files.kwargs).create_client(
        "s3",
        config=Config(**files.config_kwargs),
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 - no key at all
        **{"use_ssl": files.use_ssl, **given},
    )
    client.meta.events.register("before-send.s3", keep_back)
    with contextlib.suppress(_NotSentError):
        client.head_bucket(Bucket=bucket)
    return addressed[0]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes; botocore keeps some in a field."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        kept = getattr(error, "kwargs", None)
        inner = kept.get("error") if isinstance(kept, dict) else None
        error = inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__


def _code(error: BaseException) -> str:
    """S3's code of a fault."""
    for one in _chain(error):
        response = getattr(one, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return ""


def _failure(place: str, error: Exception) -> ModelError:
    """The one line for a fault; no key is shown."""
    for one in _chain(error):
        if isinstance(one, PolicyError):
            return one
    code = _code(error)
    names = {type(one).__name__ for one in _chain(error)}
    if code == "NoSuchBucket":
        return StorageError(f"{place}: bucket not found")
    if names & {"NoCredentialsError", "PartialCredentialsError"}:
        return StorageError(
            f"{place}: no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or"
            " AWS_PROFILE"
        )
    if names & {"EndpointConnectionError", "ConnectTimeoutError"}:
        return StorageError(f"{place}: the server does not respond")
    if isinstance(error, PermissionError):
        said = f" ({code})" if code else ""
        return StorageError(f"{place}: access denied{said}: check the credentials and their rights")
    if isinstance(error, FileNotFoundError):
        return StorageError(f"{place}: is not there")
    words = redacted(" ".join(str(error).split()))
    for variable in _SECRETS:
        if secret := os.environ.get(variable):
            words = words.replace(secret, "***")
    return StorageError(f"{place}: {type(error).__name__}: {words[:_MAX_SAID]}")
