"""Files on scratch: unpacked copies of compressed text, of NPZ and of text that is not UTF-8, files of web servers that
send them as a whole, and Parquet files in smaller row groups.

A copy is made once, by a task on a worker, and found again by the fingerprint of the file that it was made from.
"""

import bz2
import codecs
import gzip
import lzma
import os
import platform
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from dkernel.data.damage import explain_damage
from dkernel.data.file_schema import FileSchema
from dkernel.data.file_stamps import BY_CONTENT, UNKNOWN, digest_of
from dkernel.data.paths import File
from dkernel.data.readers.parquet import store_shares
from dkernel.data.scratch import Scratch, make_scratch_folder
from dkernel.data.store import explain_errors, open_filesystem
from dkernel.data.writers.atomic import replacing
from dkernel.errors import DataError, RecipeError

NO_NPZ = "the file is truncated, damaged or no NPZ"
_BUFFER = 4 * 2**20  # copied at a time


def unpack_all(files: Sequence[File], scratch: Scratch, compute: Callable[..., Any]) -> list[File]:
    """The files, with unpacked copies in the place of those that need one."""
    packed = [i for i, file in enumerate(files) if _is_packed(file)]
    if not packed:
        return list(files)
    folder = make_scratch_folder(scratch)
    result = list(files)
    for i, copy in zip(packed, compute(*(files[i].task(unpack, folder) for i in packed)), strict=True):
        copy.check()  # that this process sees it
        result[i] = copy
    return result


def copy_in_shares(tables: Sequence[FileSchema], scratch: Scratch, compute: Callable[..., Any]) -> list[FileSchema]:
    """The tables, those of Parquet with large row groups with a copy in smaller ones where one can be made."""
    result = list(tables)
    if large := [i for i, table in enumerate(tables) if table.file.format == "parquet" and table.extra]:
        folder = make_scratch_folder(scratch)
        copies = compute(*(tables[i].file.task(store_shares, folder) for i in large))
        for i, copy in zip(large, copies, strict=True):
            result[i] = replace(tables[i], file=replace(tables[i].file, copy=copy))
    return result


def unpack(file: File, folder: str) -> File:
    """The unpacked copy of one file in `folder`, made unless it is there; runs on a worker.

    A copy under its name is always whole.
    """
    file.check()
    if not os.path.isdir(folder):
        raise RecipeError(
            f"{file.name}: the folder {folder} for its unpacked copy is not there on {platform.node()}. Give --scratch "
            "a folder that the client and all workers share, or store the rows as Parquet or UTF-8 CSV: these need "
            "no copy."
        )
    target = os.path.join(folder, file.key("copy", *filter(None, [file.text_encoding])) + file.suffix)
    if not os.path.exists(target):
        with replacing(Path(target), durable=False) as out, _whole(file, folder) as packed:
            (_unpack_npz if file.suffix == ".npz" else _unpack_stream)(file, packed, out)
    status = os.stat(target)
    if status.st_size == 0:
        raise DataError(f"{file.name}: the file is empty once unpacked.")
    return replace(
        file,
        path=target,
        size=status.st_size,
        stamp=str(status.st_mtime_ns),
        compression="",
        options={},
        origin=file,
        text_encoding="",
    )


def _whole(file: File, folder: str) -> Any:
    """The file to read from, by way of a copy in `folder` where its server sends it as a whole."""
    if file.has_ranges():
        return file.open()
    copy = tempfile.NamedTemporaryFile(dir=folder)  # noqa: SIM115 - closed, and so removed, by who reads it
    with explain_errors(file.path):
        system, inner = open_filesystem(file.path, file.options)
        system.get_file(inner, copy.name)
    if file.stamp.startswith(BY_CONTENT):
        with open(copy.name, "rb") as whole:
            file.check_is((UNKNOWN, BY_CONTENT + digest_of(whole)))
    return copy


def _unpack_stream(file: File, packed: BinaryIO, out: BinaryIO) -> None:
    damaged = explain_damage(file.name, "the compressed file is truncated or damaged")
    with damaged, _opener(file.compression)(packed) as plain:
        try:
            text = codecs.EncodedFile(plain, "utf-8", file.text_encoding) if file.text_encoding else plain
            shutil.copyfileobj(text, out, _BUFFER)
        except UnicodeError as error:
            raise DataError(
                f"{file.name}: the text is not {file.text_encoding} ({error}). Change text_encoding."
            ) from None


def _opener(compression: str) -> Callable[[BinaryIO], Any]:
    if not compression:
        return nullcontext
    if compression == "zst":
        return lambda packed: pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd")
    openers: dict[str, Callable[[BinaryIO], Any]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
    return openers[compression]


def _unpack_npz(file: File, packed: BinaryIO, out: BinaryIO) -> None:
    with (
        explain_damage(file.name, NO_NPZ),
        zipfile.ZipFile(packed) as source,
        zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target,
    ):
        for name in source.namelist():
            with source.open(name) as member, target.open(name, "w", force_zip64=True) as copy:
                shutil.copyfileobj(member, copy, _BUFFER)


def _is_packed(file: File) -> bool:
    if file.compression or file.text_encoding or not file.has_ranges():
        return True
    if file.suffix != ".npz":
        return False
    with explain_damage(file.name, NO_NPZ), file.open() as opened, zipfile.ZipFile(opened) as archive:
        return any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist())
