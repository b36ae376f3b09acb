"""Columns of an uncompressed NPZ file, read by rows: a file larger than memory is no trouble, and nothing is executed.

NumPy's own reader loads a member whole. In an uncompressed archive a member is a plain `.npy` file at a known byte, so
its rows can be read in place.
"""

import hashlib
import math
import os
import stat
import struct
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from asap.base.errors import UserError

_LOCAL_HEADER = 30  # Bytes of a member's own header; the lengths of the name and extra after it are its last two words.
_HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def bad_file(path: str | Path, what: str, cure: str = "make it again, or give another file") -> UserError:
    return UserError(f"dataset {path}", what, cure=cure)


class Column:
    """One array of the file: rows of a fixed size."""

    def __init__(self, path: Path, source: "_Source", info: zipfile.ZipInfo, file: BinaryIO):
        self.path, self.name, self.crc = path, info.filename.removesuffix(".npy"), info.CRC
        self._source = source
        if info.compress_type != zipfile.ZIP_STORED:
            raise self._bad("is compressed", "write it with numpy.savez, not savez_compressed")
        # Where the member begins; the length of its own header may differ from what the table of contents says.
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
            raise bad_file(path, f"byte {info.header_offset:,}: no beginning of '{info.filename}' there")
        self._member = info.header_offset + _LOCAL_HEADER + sum(struct.unpack("<HH", header[26:30]))
        file.seek(self._member)
        self.shape, self.dtype = self._header(file)
        self._data = file.tell()
        self._row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        ends, promised = self._data + self._row_bytes * self.num_rows, self._member + info.file_size
        size = os.fstat(source.descriptor).st_size
        if ends != promised or ends > size:
            raise self._bad(f"should end at byte {ends:,}, but ends at byte {min(promised, size):,}")

    def _bad(self, what: str, *cure: str) -> UserError:
        return bad_file(self.path, f"column '{self.name}' {what}", *cure)

    @property
    def num_rows(self) -> int:
        return self.shape[0] if self.shape else 1

    def _header(self, file: BinaryIO) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype; an array of Python objects would have to be unpickled, and is refused."""
        try:
            shape, is_fortran, dtype = _HEADER_READERS[npy.read_magic(file)](file)
        except Exception:  # Of many kinds, also the tokenizer's, where a header is damaged.
            raise bad_file(self.path, f"byte {self._member:,}: no array of a known format in '{self.name}'") from None
        if dtype.hasobject:
            raise self._bad("holds Python objects, which are not loaded", "save plain numbers")
        if is_fortran and len(shape) > 1:
            raise self._bad("is in Fortran order", "save numpy.ascontiguousarray of it")
        return shape, dtype

    def read(self, start: int, count: int) -> np.ndarray:
        """Rows from `start` on."""
        data = os.pread(self._source.descriptor, count * self._row_bytes, self._data + start * self._row_bytes)
        if len(data) < count * self._row_bytes:
            raise self._bad(f"is cut off at byte {self._data + start * self._row_bytes + len(data):,}")
        return np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])

    def stream(self, rows: int) -> Iterator[np.ndarray]:
        """All rows in chunks, proven by the checksum that the archive has of them."""
        crc = zlib.crc32(os.pread(self._source.descriptor, self._data - self._member, self._member))
        for start in range(0, self.num_rows, rows):
            chunk = self.read(start, min(rows, self.num_rows - start))
            crc = zlib.crc32(chunk, crc)
            yield chunk
        if crc != self.crc:
            place = f"between bytes {self._member:,} and {self._data + self.num_rows * self._row_bytes:,}"
            raise bad_file(self.path, f"column '{self.name}': checksum mismatch {place}")

    def value(self) -> np.ndarray:
        """The whole of an array without axes."""
        return self.read(0, 1).reshape(self.shape)


def open_columns(path: str | Path) -> dict[str, Column]:
    """Every array of the file by its name. The file stays open for as long as a column lives."""
    path = Path(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # Opening a FIFO would wait for ever.
            raise bad_file(path, "is not a regular file")
        with open(path, "rb") as file:
            members = _members(path, file)
            source = _Source(os.dup(file.fileno()))
            columns = [Column(path, source, info, file) for info in members]
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path.
        raise bad_file(path, f"cannot be read: {getattr(error, 'strerror', None) or error}", "check the path") from None
    return {column.name: column for column in columns}


class _Source:
    """The open file, closed when its last column is gone."""

    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)


def _members(path: Path, file: BinaryIO) -> list[zipfile.ZipInfo]:
    size = os.fstat(file.fileno()).st_size
    first = file.read(2)
    if size == 0:
        raise bad_file(path, "is empty (0 bytes)")
    if first != b"PK":
        cure = "give a file as made by `asap collect` or numpy.savez"
        raise bad_file(path, f"is not an NPZ file: byte 0 is {first!r}, should be b'PK'", cure)
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.infolist()
    except (zipfile.BadZipFile, struct.error, UnicodeDecodeError, NotImplementedError):
        raise bad_file(path, f"is cut off: it has no table of contents before its end at byte {size:,}") from None


def fingerprint(columns: dict[str, Column]) -> str:
    """Tells one file's contents from another's by the checksums that the archive holds: no byte of data is read."""
    contents = sorted((name, column.shape, column.dtype.str, column.crc) for name, column in columns.items())
    return hashlib.sha256(repr(contents).encode()).hexdigest()[:16]
