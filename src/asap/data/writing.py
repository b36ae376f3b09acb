"""Writing a dataset of any size in bounded memory: columns grow in unnamed files and become one NPZ at the end."""

import contextlib
import io
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from asap.base.errors import RunError
from asap.base.files import replacing
from asap.data.layout import Meta

COPY_BYTES = 1 << 20
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # The same data give the same file.


class _Spool:
    """A column under way: its rows so far, in a file that the system removes by itself."""

    def __init__(self, folder: Path, first: np.ndarray):
        self.dtype, self.row_shape, self.num_rows = first.dtype, first.shape[1:], 0
        self.file = tempfile.TemporaryFile(dir=folder)

    def add(self, rows: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(rows, self.dtype).data)
        self.num_rows += len(rows)

    def copy_to(self, member: io.BufferedIOBase) -> None:
        shape, kind = (self.num_rows, *self.row_shape), npy.dtype_to_descr(self.dtype)
        npy.write_array_header_1_0(member, {"descr": kind, "fortran_order": False, "shape": shape})
        self.file.seek(0)
        shutil.copyfileobj(self.file, member, COPY_BYTES)


class DatasetWriter:
    """`with DatasetWriter(path) as writer:` add rows column by column, then `finish`; without it nothing is written."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._spools: dict[str, _Spool] = {}

    def __enter__(self) -> "DatasetWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for spool in self._spools.values():
            spool.file.close()

    def add(self, columns: dict[str, np.ndarray]) -> None:
        """More rows; a column keeps the type that it began with."""
        with self._reported():
            for name, rows in columns.items():
                if name not in self._spools:
                    self._spools[name] = _Spool(self.path.parent, rows)
                self._spools[name].add(rows)

    def finish(self, meta: Meta) -> None:
        """Puts the file in its place, whole."""
        with self._reported(), replacing(self.path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, spool in self._spools.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy", _LONG_AGO), "w", force_zip64=True) as member:
                    spool.copy_to(member)
            with archive.open(zipfile.ZipInfo("meta.npy", _LONG_AGO), "w") as member:
                npy.write_array(member, np.asarray(meta.to_json()), allow_pickle=False)

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            cure = "free space, or choose another file"
            raise RunError("--out", f"cannot write: {error.strerror}", self.path, cure) from None
