"""The file of a submission: a JSON array, alone or in a zip as `submission.json`."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from cases.submissions.task import Fault, Opened, named
from storage.files import json_bytes, whole

MEMBER = "submission.json"
MAX_BYTES = 1 << 24
"""Maximum size of a submission, compressed or not."""
_DATE = (1980, 1, 1, 0, 0, 0)  # a fixed date: equal submissions are equal files
_ZIP_START = b"PK"
_BOM = b"\xef\xbb\xbf"


class _Refused(Exception):
    """Why the scorer could not read the file."""

    def __init__(self, fault: str, remedy: str) -> None:
        super().__init__(fault)
        self.fault = Fault("refused", None, "", fault, remedy)


def open_submission(path: Path) -> Opened:
    """Open `path` as the upload site does, and keep faults of the file itself.

    Raises:
        InputError: The file is missing, too long, or cannot be read at all.
    """
    content = whole(path, MAX_BYTES)
    faults: tuple[Fault, ...] = ()
    try:
        if path.suffix.lower() == ".zip" or content.startswith(_ZIP_START):
            content, faults = _unpacked(content)
        return Opened(_entries(content), faults)
    except _Refused as refused:
        return Opened(None, (refused.fault, *faults))


def packed(entries: Sequence[object], suffix: str) -> bytes:
    """The bytes of a submission: a zip for the suffix `.zip`, else JSON."""
    content = json_bytes(entries, indent=2)
    if suffix.lower() != ".zip":
        return content
    archive_bytes = io.BytesIO()
    with zipfile.ZipFile(archive_bytes, "w") as archive:
        archive.writestr(zipfile.ZipInfo(MEMBER, _DATE), content, zipfile.ZIP_DEFLATED)
    return archive_bytes.getvalue()


def _unpacked(content: bytes) -> tuple[bytes, tuple[Fault, ...]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
            if MEMBER not in names:
                raise _misplaced(names)
            return _member(archive), _others([name for name in names if name != MEMBER])
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        # RuntimeError is what zipfile raises for an encrypted member.
        raise _Refused(f"not a readable zip: {error}", f"Pack {MEMBER} anew, without a password") from error


def _member(archive: zipfile.ZipFile) -> bytes:
    """Content of the zip, read with a limit, as its directory may state a wrong size."""
    if archive.getinfo(MEMBER).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # The others can only be unpacked without one.
        raise _Refused(
            f"{MEMBER} is packed by a method that is not deflate", "Pack it as zip does by default"
        )
    with archive.open(MEMBER) as member:
        content = member.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        fault = f"{MEMBER} unpacks to more than {MAX_BYTES >> 20} MB"
        raise _Refused(fault, "A submission of thousands of cases takes some MB")
    return content


def _misplaced(names: list[str]) -> _Refused:
    inside = [name for name in names if PurePosixPath(name).name == MEMBER]
    remedy = f"Pack only {MEMBER} itself: the scorer opens only this name"
    if inside:
        return _Refused(f"{MEMBER} is in a folder of the zip: {inside[0]!r}", remedy)
    return _Refused(f"no {MEMBER} in the zip, but {named(names) or 'nothing'}", remedy)


def _others(names: list[str]) -> tuple[Fault, ...]:
    if not names:
        return ()
    fault = f"the zip holds {named(names)} too, which the scorer does not read"
    return (Fault("penalised", None, "", fault, f"The rules want {MEMBER} alone"),)


def _entries(content: bytes) -> list[object]:
    if content.startswith(_BOM):
        raise _Refused("it begins with a byte order mark", "Save it as UTF-8 without BOM")
    try:
        entries = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _Refused(f"byte {error.start + 1} is not UTF-8", "Save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _Refused(f"{place}: {error.msg}", "Correct the JSON") from error
    except (ValueError, RecursionError) as error:
        raise _Refused(f"cannot be read as JSON: {error}", "Correct the JSON") from error
    if not isinstance(entries, list):
        remedy = "A submission is a list of cases"
        raise _Refused(f"its top level is not an array but {type(entries).__name__}", remedy)
    return entries
