"""How near the tiles come to the machine: rows/s of training and scoring beside a roof that is measured on the spot.

One thread. The roof of a row is the time of what cannot be left out (Williams, Waterman and Patterson 2009):

    t_row = D ((2 p' + 4 C h) / F + t) + 4 p / B

F is the rate of sgemm at 2048 cubed, t the compiled cosine or exponential of one component in cache, B the rate at
which memory is read; p' = p for Nystrom columns and p / 2 for pairs of sine and cosine, h = 1 for training and 1/2 for
scoring. fraction = t_row * rows/s. Training is one gradient statistic of the squared hinge on a block, as a task
computes it, scoring `Model.scores`.

In a round of grids a row needs its codes, and with them one access to a table for the sums and one for the scores:

    t_row = n_grids (p t_feature + t_sum + t_score)

t_feature is the time of a product, a rounding and a product of integers, what a hash is made of, and t_sum and t_score
those of a loop over codes that are in cache. Scoring needs no sums. All times are those of the thread's own clock, the
best of --repeats.

    python scripts/bench/roofline.py
    python scripts/bench/roofline.py --features 28 --components 8192
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from report import finish, parser

from dkernel.data.block import Block
from dkernel.features import FeatureMap, FourierMap, NystromMap, Scaling
from dkernel.kernels import Gaussian
from dkernel.losses.losses import parse_loss
from dkernel.model.local.binning import Binning, add_bin_scores, add_sums
from dkernel.model.model import Model, ScaledComponents
from dkernel.model.recipe import Recipe
from dkernel.numerics import tiling
from dkernel.numerics.threads import one_blas_thread
from dkernel.solvers.objective import Gradient, Objective
from dkernel.solvers.targets import Targets
from dkernel.streaming.schedule import cut_pieces

MAPS = ("fourier", "nystrom")
PIECE = 2048
CUBE = 2048
GRIDS, BITS, GRID_ROWS = 64, 13, 32_768  # of a round of grids and a piece of its reading
HASHES = 1024  # rows whose hashes stay in the L1 cache
STREAM = 64 * 2**20  # float32 numbers, 256 MiB: beyond every cache


def best(function: Callable[[], Any], repeats: int) -> float:
    """Seconds of this thread, the least of some runs after one that nobody counts."""
    function()
    found = []
    for _ in range(repeats):
        start = time.thread_time()
        function()
        found.append(time.thread_time() - start)
    return min(found)


def limits(repeats: int) -> dict[str, float]:
    """What the machine can do: Gflop/s of sgemm, ns of a feature's function, GB/s read from memory."""
    rng = np.random.default_rng(0)
    A, out = rng.random((CUBE, CUBE), np.float32), np.empty((CUBE, CUBE), np.float32)
    sgemm = 2 * CUBE**3 / best(lambda: np.matmul(A, A, out=out), repeats) / 1e9
    long = np.ones(STREAM, np.float32)
    memory = long.nbytes / best(lambda: np.dot(long, long), repeats) / 1e9
    tile = rng.random((tiling.TILE_ROWS, tiling.TILE_COMPONENTS), np.float32)

    def nanoseconds(function: Callable[[Any], None], values: Any) -> float:
        def often() -> None:
            for _ in range(20):
                function(values)

        return 1e9 * best(often, repeats) / 20 / values.size

    return {
        "sgemm_gflops": sgemm,
        "memory_gb_s": memory,
        "cos_ns": nanoseconds(tiling.cos_turns_inplace, tile.copy()),
        "sincos_ns": nanoseconds(tiling.sincos_turns_inplace, tile.reshape(2, -1).copy()),
        "exp2_ns": nanoseconds(tiling.exp2_inplace, -tile),
    }


def model_of(map: FeatureMap, X: Any) -> Model:
    """A model of this map with coefficients that mean nothing."""
    scaling = Scaling.of(
        "standard", *(getattr(X.astype(np.float64), what)(axis=0) for what in ("mean", "var", "min", "max"))
    )
    coef = np.random.default_rng(1).normal(size=(map.n_components, 1))
    names = tuple(f"x{j}" for j in range(map.n_in))
    return Model(Recipe(), scaling, map, coef, np.zeros(1), np.array([0, 1]), names, "y")


def lines(p: int, D: int, which: str, roof: dict[str, float], repeats: int) -> list[dict[str, Any]]:
    """Training and scoring with one map."""
    rng = np.random.default_rng(p)
    rows = PIECE * max(1, min(8, 2**24 // (D * p) * 4))
    X = rng.normal(size=(rows, p)).astype(np.float32)
    kernel = Gaussian(gamma=1 / p)
    if which == "nystrom":
        map: FeatureMap = NystromMap(kernel, rng.normal(size=(D, p)).astype(np.float32))
        products, function = 2.0 * p, roof["exp2_ns"]
    else:
        map = FourierMap.draw(kernel, p, D, 0, "orthogonal")
        products, function = float(p), roof["sincos_ns"]
    model = model_of(map, X)
    targets = Targets(np.array([0, 1]))
    objective = Objective(ScaledComponents(model.scaling, map), parse_loss("squared_hinge"), targets)
    block, pieces = Block(X, rng.integers(0, 2, rows)), cut_pieces([[rows]])
    sent = model.coef.astype(np.float32), np.zeros(1, np.float32)

    def train() -> None:
        for piece in pieces:
            Gradient(objective).step(block, piece, sent)

    out = []
    for what, function_of_it, half in (("train", train, 1.0), ("score", lambda: model.scores(X), 0.5)):
        seconds = best(function_of_it, repeats) / rows
        least = D * ((products + 4 * half) / roof["sgemm_gflops"] + function) + 4 * p / roof["memory_gb_s"]
        out.append({
            "map": which, "work": what, "p": p, "D": D, "rows/s": 1 / seconds, "roof rows/s": 1e9 / least,
            "ns a component": 1e9 * seconds / D, "fraction_%": 100e-9 * least / seconds,
        })  # fmt: skip
    return out


@tiling.compile_loop("void(float32[:, ::1], float32[:, ::1], uint32[:, ::1])", set())
def _intervals(X: Any, inverse: Any, codes: Any) -> None:
    for g in range(codes.shape[0]):
        for first in range(0, codes.shape[1], HASHES):
            h = codes[g, first : first + HASHES]
            for j in range(X.shape[0]):
                a, x = inverse[g, j], X[j, first : first + HASHES]
                for i in range(h.size):
                    h[i] += np.uint32(np.int32(np.floor(x[i] * a))) * np.uint32(5)


def grid_lines(p: int, repeats: int) -> list[dict[str, Any]]:
    """The parts of a round of grids, a whole round of training, and scoring."""
    rng = np.random.default_rng(p)
    X = rng.normal(size=(p, GRID_ROWS)).astype(np.float32)
    binning = Binning.draw(1 / p, p, GRIDS, BITS)
    codes, blank = binning.codes(X.T), np.zeros((GRIDS, GRID_ROWS), np.uint32)
    values, table = rng.integers(0, 2**30, (GRID_ROWS, 1)), np.zeros((binning.n_bins, 1), np.int64)
    coef, unit = rng.integers(-99, 99, (binning.n_bins, 1), np.int16), np.ones((GRIDS, 1), np.float32)
    scores = np.zeros((GRID_ROWS, 1), np.float32)
    least = best(lambda: _intervals(X, binning.inverse, blank), repeats)
    made = best(lambda: binning.codes(X.T), repeats)
    summed = best(lambda: add_sums(codes, binning.starts, values, table), repeats)
    scored = best(lambda: add_bin_scores(codes, binning.starts, coef, unit, scores), repeats)
    lines = {
        "codes": (made, least), "sums": (summed, summed), "scores": (scored, scored),
        "train": (made + summed + scored, least + summed + scored),
        "score": (best(lambda: binning.add_scores(X.T, coef, unit, scores), repeats), least + scored),
    }  # fmt: skip
    return [
        {
            "map": "grids", "work": work, "p": p, "D": GRIDS, "rows/s": GRID_ROWS / seconds,
            "roof rows/s": GRID_ROWS / roof, "ns a component": 1e9 * seconds / GRID_ROWS / GRIDS,
            "fraction_%": 100 * roof / seconds,
        }
        for work, (seconds, roof) in lines.items()
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--features", type=int, nargs="+", default=[8, 28, 90, 784], help="p")
    ask.add_argument("--components", type=int, nargs="+", default=[1024, 8192], help="D")
    ask.add_argument("--maps", nargs="+", choices=MAPS, default=list(MAPS))
    ask.add_argument("--repeats", type=int, default=5)
    args = ask.parse_args(arguments)
    found: list[dict[str, Any]] = []
    with one_blas_thread():
        roof = limits(args.repeats)
        for p in args.features:
            for D in args.components:
                for which in args.maps:
                    found += lines(p, D, which, roof, args.repeats)
            found += grid_lines(p, args.repeats)
    finish("roofline: " + ", ".join(f"{name} {value:.3g}" for name, value in roof.items()), found, args.json, **roof)
    return 0


if __name__ == "__main__":
    sys.exit(main())
