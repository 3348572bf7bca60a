"""Texts hashed into 2^20 columns, which stay sparse: kernel machines beside a linear one on the same columns.

The texts are made, for none come with scikit-learn: words by a Zipf law, of one topic of four pairs and of a common
stock. "topics" has a label that single words say, as most real texts have; "pairs" one that only pairs of topics say,
which a sum over words cannot. Errors are on texts of their own; seconds are of this machine, fit alone.

    python scripts/bench/text.py --rows 30000
"""

import argparse
import resource
import time
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

from dkernel import KernelClassifier

TOPICS, WORDS, COMMON, LENGTH, NOISE = 4, 300, 20_000, 60, 0.03


def made(kind: str, n: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Texts of two topics each, and a label by either or by the pair of them."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, TOPICS, n), TOPICS + rng.integers(0, TOPICS, n)
    y = first % 2 if kind == "topics" else (first + second) % 2
    flip = rng.random(n) < NOISE
    words = rng.zipf(1.2, (n, LENGTH)) % WORDS
    common = rng.zipf(1.1, (n, LENGTH)) % COMMON
    share = rng.random((n, LENGTH))
    topic = np.where(share < 0.2, first[:, None], second[:, None])
    texts = [
        " ".join(f"t{t}w{w}" if s < 0.4 else f"c{c}" for s, t, w, c in zip(*row, strict=True))
        for row in zip(share, topic, words, common, strict=True)
    ]
    return texts, np.where(flip, 1 - y, y)


def measured(machine: Any, train: tuple[Any, Any], test: tuple[Any, Any]) -> tuple[float, float]:
    """Test error in percent, seconds of the fit."""
    begin = time.perf_counter()
    machine.fit(*train)
    return 100 * float(np.mean(machine.predict(test[0]) != test[1])), time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--components", type=int, default=1000)
    arguments = parser.parse_args()
    n, hashing = arguments.rows, HashingVectorizer(norm="l2", alternate_sign=False)
    print(f"{n:,} texts, {2**20:,} columns; dense rows would be {4 * n * 2**20 / 2**30:,.0f} GiB")
    print("| data | machine | error % | s |\n|---|---|---|---|")
    for kind in ("topics", "pairs"):
        texts, y = made(kind, n, 0)
        others, y_test = made(kind, 10_000, 1)
        train, test = (hashing.transform(texts), y), (hashing.transform(others), y_test)
        machines = {
            "linear SGD, hinge, alpha of three": None,
            "KernelClassifier, Gaussian": KernelClassifier("gaussian", n_components=arguments.components),
            "KernelClassifier, Polynomial(2)": KernelClassifier(
                "Polynomial(2, 1.0)", n_components=arguments.components, scale="none"
            ),
            "KernelClassifier, Gaussian, fourier": KernelClassifier(
                "gaussian", features="fourier", n_components=arguments.components
            ),
        }
        for name, machine in machines.items():
            if machine is None:
                linear = [SGDClassifier(alpha=alpha, random_state=0) for alpha in (1e-6, 1e-5, 1e-4)]
                error, seconds = min(measured(each, train, test) for each in linear)
            else:
                error, seconds = measured(machine, train, test)
            print(f"| {kind} | {name} | {error:.1f} | {seconds:.1f} |", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of the process: {peak:.2f} GiB")


if __name__ == "__main__":
    main()
