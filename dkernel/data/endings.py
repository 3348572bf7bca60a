"""What the ending of the name of a file says: its format, and its compression."""

import os
import re

# ending -> format; the format is also the name of the module that reads it.
FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".parq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".npy": "npy",
    ".npz": "npy",
    ".zarr": "zarr",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".svm": "svmlight",
}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
OTHER_ENDINGS = {
    "an archive: unpack it, and name the files in it": (".zip", ".tar", ".tgz", ".7z", ".rar"),
    "compressed in a way that is not read: unpack it": (".lz4", ".snappy", ".sz", ".br", ".lzma"),
    "a text of any kind: rename it to .csv if it is a table with a delimiter": (".txt", ".dat", ".data", ".asc"),
    "JSON: write it as Parquet, as by pandas.read_json": (".json", ".jsonl", ".ndjson"),
    "a spreadsheet: save it as CSV, or as Parquet by pandas.read_excel": (".xlsx", ".xls", ".ods"),
    "a file that pandas or pyarrow read: write it as Parquet": (".feather", ".arrow", ".ipc", ".orc", ".avro", ".pkl"),
}
TEXTS = ("csv", "svmlight")  # formats whose numbers are parsed by every reading; they may be compressed


def is_parsed(name: str) -> bool:
    """True if the numbers of a file of this name are parsed by every reading.

    Examples
    --------
    >>> is_parsed("rows.csv.gz"), is_parsed("rows.parquet")
    (True, False)
    """
    return FORMATS.get(split_ending(name)[0]) in TEXTS


def split_ending(path: str) -> tuple[str, str]:
    """The ending without the compression, in small letters, and the compression.

    That of a web address is the ending of its path, or of its query where the path has none that is known.

    Examples
    --------
    >>> split_ending("A.TSV.gz"), split_ending("https://site/d.parquet?Signature=1f.3a")
    (('.tsv', 'gz'), ('.parquet', ''))
    >>> split_ending("https://site/?f=a.csv")
    ('.csv', '')
    """
    endings = []
    for part in (without_query(path), path):
        lower = part.rstrip("/").lower()
        compression = next((c for c in COMPRESSIONS if lower.endswith(c)), "")
        endings.append((os.path.splitext(lower.removesuffix(compression))[1], compression.lstrip(".")))
    return next((each for each in endings if each[0] in FORMATS), endings[0])


def without_query(path: str) -> str:
    return re.sub(r"[?#].*", "", path) if re.search("https?://", path) else path
