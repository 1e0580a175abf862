"""Packed files that unpack to far more than anybody wrote: given up soon, in memory that stays flat."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cases.documents import Skipped
from cases.formats.archehr_key import read_archehr_key
from cases.formats.document_files import read_documents_jsonl
from cases.formats.json_lines import read_json_lines
from cases.formats.json_questions import read_json
from cases.formats.pubmed_xml import read_pubmed_xml
from cases.load import find_cases
from cases.records import Case, InvalidCase
from cases.submissions.container import MAX_BYTES, MEMBER, open_submission
from storage.errors import InputError
from storage.files import MAX_LINE_BYTES, DamagedFile, Meter, lines

MB = 1 << 20
UNPACKED = 96
"""Megabytes, of which a bomb packs a thousand into one."""

FEW = 48 * MB
"""Of memory: a record's limit thrice."""


def packed(path: Path, begin: bytes, piece: bytes, times: int = UNPACKED) -> Path:
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(begin)
        for _ in range(times):
            file.write(piece)
    return path


def peak(work: Callable[[], object]) -> int:
    """The most memory that Python held at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def read_out(found: Iterator[object]) -> list[object]:
    return list(found)


@pytest.mark.parametrize(
    "piece", [b" " * MB, (b"a" * 1023 + b"\n") * 1024, b"[]," * (MB // 3), b"<PubmedArticle>" * 70_000]
)
def test_a_gzip_bomb_is_given_up_in_flat_memory(tmp_path: Path, piece: bytes) -> None:
    path = packed(tmp_path / "a.jsonl.gz", b"", piece)

    def read() -> None:
        for _ in lines(path, Meter()):
            pass

    def check() -> None:
        with pytest.raises(DamagedFile, match="250 times its size"):
            read()

    assert peak(check) < FEW
    found = read_out(read_documents_jsonl(path, 10**9, Meter()))
    assert found == []
    with pytest.raises(InputError, match=r"line 1|250 times its size"):
        read_out(read_json_lines(path))
    xml = path.rename(tmp_path / "a.xml.gz")
    *_, last = read_out(read_pubmed_xml(xml, 0, Meter()))
    assert isinstance(last, Skipped)


def test_what_people_pack_is_no_bomb(tmp_path: Path) -> None:
    path = packed(
        tmp_path / "a.jsonl.gz", b"", b'{"id": "1", "text": "Sodium fell to 118 mmol/L."}\n', 10_000
    )
    assert len(list(lines(path, Meter()))) == 10_000


def test_a_long_line_is_cut_wherever_pieces_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.files.MAX_LINE_BYTES", 10)
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n\n" + b"x" * 35 + b"\nb\n" + b"y" * 10 + b"\nlast")
    for size in (1, 2, 3, 7, 1000):
        monkeypatch.setattr("storage.files._PIECE", size)
        assert list(lines(path, Meter())) == [b"a", b"", b"x" * 11, b"b", b"y" * 10, b"last"]


def test_a_case_that_is_too_long_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    long = b'{"case_id": "1", "narrative": "' + "\u20ac".encode() * (MAX_LINE_BYTES // 3) + b'"}\n'
    path.write_bytes(long + b'{"case_id": "2"}\n')
    first, second = find_cases([path])
    assert isinstance(first, InvalidCase) and isinstance(second, Case)
    assert (first.id, second.id) == ("line 1", "2")
    assert "longer than 16 MB" in first.fault


def zipped(path: Path, megabytes: int, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive, archive.open(MEMBER, "w") as member:
        for _ in range(megabytes):
            member.write(b" " * MB)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_bomb_is_refused_in_flat_memory(tmp_path: Path, method: int) -> None:
    path = zipped(tmp_path / "submission.zip", 60, method)
    found = []
    assert peak(lambda: found.append(open_submission(path))) < FEW
    assert found[0].entries is None
    deflated = method == zipfile.ZIP_DEFLATED
    assert ("more than 16 MB" if deflated else "not deflate") in found[0].faults[0].fault


def test_so_is_one_whose_directory_lies(tmp_path: Path) -> None:
    path = zipped(tmp_path / "submission.zip", 40)
    content = bytearray(path.read_bytes())
    # The size in the central directory, from which zipfile has it.
    place = content.rindex(b"PK\x01\x02") + 24
    content[place : place + 4] = (100).to_bytes(4, "little")
    path.write_bytes(content)
    found = []
    assert peak(lambda: found.append(open_submission(path))) < FEW
    assert found[0].entries is None


def test_a_submission_of_some_megabytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "submission.zip"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER, b"[1" + b" " * (8 * MB) + b"]")
    path.write_bytes(buffer.getvalue())
    assert open_submission(path).entries == [1]


def test_files_that_are_read_whole_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"[" + b" " * MAX_BYTES + b"]")
    with pytest.raises(InputError, match="longer than 16 MB"):
        open_submission(path)
    for module, read in (("json_questions", read_json), ("archehr_key", read_archehr_key)):
        monkeypatch.setattr(f"cases.formats.{module}._MAX_BYTES", MB)
        with pytest.raises(InputError, match="longer than 1 MB"):
            read(path)
