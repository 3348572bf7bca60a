"""What a linear model reaches on the same files: scikit-learn's SGD, chunk by chunk, in bounded memory.

Averaged logistic SGD on standardized columns, one pass over at most `--rows` rows. The score is accuracy on the test
files. Prints one JSON line.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

CHUNK = 131_072


def chunks(path: Path, label: str) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int8]]]:
    """(X, y) of at most CHUNK rows each, in file order."""
    for file in sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]:
        with pq.ParquetFile(file) as opened:
            features = [name for name in opened.schema_arrow.names if name != label]
            for batch in opened.iter_batches(CHUNK, use_threads=False):
                yield np.column_stack([batch[name].to_numpy() for name in features]), batch[label].to_numpy()


def baseline(train: Path, test: Path, label: str, rows: int, seed: int) -> dict[str, object]:
    """Fit on the first `rows` rows of `train`, score on all of `test`."""
    start, seen = time.perf_counter(), 0
    scaler, model = StandardScaler(), SGDClassifier(loss="log_loss", average=True, random_state=seed)
    for X, y in chunks(train, label):
        scaler.partial_fit(X)
        model.partial_fit(scaler.transform(X), y, classes=[0, 1])
        seen += len(y)
        if seen >= rows:
            break
    seconds = time.perf_counter() - start
    right = total = 0
    for X, y in chunks(test, label):
        right += int((model.predict(scaler.transform(X)) == y).sum())
        total += len(y)
    return {"rows": seen, "seconds": round(seconds, 2), "n": total, "accuracy": right / total}


def main(arguments: list[str] | None = None) -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("train", type=Path)
    ask.add_argument("test", type=Path)
    ask.add_argument("--label", default="label")
    ask.add_argument("--rows", type=int, default=2_000_000)
    ask.add_argument("--seed", type=int, default=0)
    args = ask.parse_args(arguments)
    print(json.dumps(baseline(args.train, args.test, args.label, args.rows, args.seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
