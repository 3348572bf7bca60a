"""Texts hashed into 2^20 columns, which stay sparse: kernel machines beside a linear one on the same columns.

The texts are made, for none come with scikit-learn: words by a Zipf law, of one topic of four pairs and of a common
stock. "topics" has a label that single words say, as most real texts have; "pairs" one that only pairs of topics say,
which a sum over words cannot. Errors are on texts of their own; seconds are of this machine, fit alone.

    python scripts/bench/text.py --rows 30000
"""

import sys

import numpy as np
from report import error_of, finish, measure_block, parser
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

from dkernel import KernelClassifier

TOPICS, WORDS, COMMON, LENGTH, NOISE = 4, 300, 20_000, 60, 0.03


def make_rows(kind: str, n: int, seed: int) -> tuple[list[str], np.ndarray]:
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


def main() -> None:
    """Print the table."""
    ask = parser(__doc__)
    ask.add_argument("--rows", type=int, default=30_000)
    ask.add_argument("--components", type=int, default=1000)
    o = ask.parse_args()
    hashing, lines = HashingVectorizer(norm="l2", alternate_sign=False), []
    for kind in ("topics", "pairs"):
        texts, y = make_rows(kind, o.rows, 0)
        others, y_test = make_rows(kind, 10_000, 1)
        X, X_test = hashing.transform(texts), hashing.transform(others)
        linear = [SGDClassifier(alpha=alpha, random_state=0) for alpha in (1e-6, 1e-5, 1e-4)]
        machines = {
            "linear SGD, hinge, alpha of three": linear,
            "Gaussian": [KernelClassifier("gaussian", n_components=o.components)],
            "Polynomial(2)": [KernelClassifier("Polynomial(2, 1.0)", n_components=o.components, scale="none")],
            "Gaussian, fourier": [KernelClassifier("gaussian", features="fourier", n_components=o.components)],
        }
        for name, several in machines.items():
            fits = []
            for machine in several:
                with measure_block() as fit:
                    machine.fit(X, y)
                fits.append((error_of(machine.predict(X_test), y_test), fit.seconds, fit.peak_mib))
            error, seconds, peak = min(fits)
            lines.append({"data": kind, "machine": name, "error_%": error, "seconds": seconds, "peak_mib": peak})
            print(lines[-1], file=sys.stderr)
    finish(f"{o.rows:,} texts in {2**20:,} columns", lines, o.json, dense_gib=4 * o.rows * 2**20 / 2**30)


if __name__ == "__main__":
    main()
