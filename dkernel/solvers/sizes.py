"""Sizes of a fit: components, reservoir, rounds, passes. They follow from rows and features alone."""

from dataclasses import dataclass

import numpy as np

from dkernel.errors import DataError
from dkernel.features import by_landmarks
from dkernel.features.base import MOST_DENSE
from dkernel.losses.losses import parse_loss
from dkernel.model.recipe import GIVEN, Recipe
from dkernel.model.solver_table import SOLVERS
from dkernel.solvers.budget import default_model_bytes, global_flops
from dkernel.streaming.cost import COMPONENT_FLOPS, SETUP_FLOPS

# Bounds of n_components="auto". Squares of 4,096 components are half a GiB of the client, and of 16,384 eight of them,
# whatever the rows: who asks for effort="high" may have these.
LEAST_COMPONENTS, MOST_COMPONENTS, MOST_OF_HIGH = 1024, 4096, 16_384
# Rows for a component of "auto". Of california four leave .4116 sd in 20 CPU seconds, six .4175 sd (with a standard
# error of .009) in 11, eight .4248 sd in 10.
ROWS_EACH = {"normal": 6, "high": 4}
STEP = 256  # components between two numbers that "auto" may be: half a tile
MOST_HOLDOUT = 16_384  # more rows would not make the choice better, and each is scored on every pass
LEVERAGE_ROWS = 2_000  # rows outside the preconditioner's sample that measure its leverage
CANDIDATES = 20_000  # rows, or four for each landmark, that a rule other than the uniform one chooses landmarks from
FREE_FLOPS = 4e11  # of the setup, some seconds: few rows may cost as much
# Rows a component -> rows of the sample for each component. The sample decides how well the covariance is known, and so
# the step; epochs on it are cheap passes. With 100 rows a component the passes make up for a smaller sample: covtype's
# errors are the same with four as with six (15.3 % at 2,000 components, 12.2 % at 5,000), and so are those of a
# quadratic form of 28 features. With 260 rows a component, three cost covtype 0.3 points and two 0.7 (2,000 components,
# mean of four seeds).
SAMPLED = ((100, 4), (0, 6))
SAMPLE_FLOPS = 1e10  # of the sample's Gram matrix, a fraction of a second: few components can have more rows
FEWEST_SAMPLED = 8192  # rows, whose epochs take a fraction of a second with any map
# Each round costs a message to a scheduler, one back and a step of the client. With many rows for each component, 32
# rounds learn nearly as much as 64: covtype with 2,000 components the same, a million rows of a quadratic form 1.62 in
# place of 1.55 % (16 rounds: 1.99). With 105 rows a component they cost covtype 0.2 points. So the number of rounds
# falls with the square of the rows a component, unless a round is much work.
MOST_ROUNDS, LEAST_ROUNDS = 64, 32
ROUND_FLOPS = 4e10  # of a round that is much work, a second of one core
SETTLED = 204  # rows a component from which on the least rounds are enough
MANY_ROWS = 2**18  # with fewer rows a pass is short, however many its rounds are
# Rows a component that teach in one pass all that passes can: with 35 of them, and 15,000 components, a second pass
# taught covtype another 0.3 points, and cost less than the setup.
ENOUGH_ROWS = 64
MOST_SAMPLE = 65_536  # rows that are held by the client
LARGE_SOURCE = 4  # times its sample: then the epochs on the sample are a small part of what the source teaches
# Passes of all rows that follow one pass of a small source: they teach what eight epochs on the sample do not, in less
# time. Test errors of 8 epochs without them, and of 2 with them: kin40k 9.4, 8.3 -> 8.5, 6.6 hundredths of the targets'
# deviation; 10,000 rows of covtype 19.8, 20.7 -> 19.1, 20.5 %, 40,000 15.4 -> 14.4 %; california, letter and magic the
# same. A large source with few rows a component has as many as cost what the setup does, or none if these are fewer
# than LEAST_POLISH: 110,000 rows of covtype and 4,096 components, after two passes, 14.9 -> 13.6 % with ten, 200,000
# 13.8 -> 13.6 with four; all rows, class 2 against the rest, and 10,000 components 10.6 -> 10.1 %, in a sixth more of
# the time.
POLISH, LEAST_POLISH = 10, 3
WIDE_SAMPLE = 16_384  # rows where a sketch of half of them takes the place of the square; the start is fitted to all


def passes_dominate(n: int, sample: int) -> bool:
    """True if the passes teach much that the sample does not know."""
    return n >= LARGE_SOURCE * sample


def pass_flops(n: int, p: int, components: int) -> float:
    """Flops of a pass: the products, and some twenty for the function of a component and the work on it."""
    return float(n) * components * (2 * p + COMPONENT_FLOPS)


def _setup_flops(components: int) -> float:
    return SETUP_FLOPS * float(components) ** 3


def _may_polish(recipe: Recipe) -> bool:
    """True if the number of passes is open, the loss is smooth and the arithmetic is that of float32."""
    passes = SOLVERS[recipe.solver].in_rounds and recipe.passes == "auto"
    return passes and recipe.dtype == "float32" and parse_loss(recipe.loss).smooth


def _holdout_rows(n: int, recipe: Recipe) -> int:
    """Rows of the holdout; none of rows that are held in memory, or of two, which would leave one to learn from."""
    if not recipe.holdout or n <= 2 or SOLVERS[recipe.solver].in_memory:
        return 0
    rows = min(MOST_HOLDOUT, n - 1, max(1, round(recipe.holdout * n)))
    if n - rows < 2:
        raise DataError(
            f"holdout={recipe.holdout:g} keeps {rows} of the {n} rows that count, and {n - rows} is left to learn "
            "from: at least two are needed. Lower the holdout, or set it to 0."
        )
    return rows


def _sample_rows(n: int, components: int) -> int:
    """Rows of the sample of a source with many rows."""
    if components > MOST_DENSE:
        return WIDE_SAMPLE
    each = next(rows for least, rows in SAMPLED if n >= least * components)
    return min(MOST_SAMPLE, max(each * components, FEWEST_SAMPLED, int(SAMPLE_FLOPS / components**2)))


def _candidate_rows(components: int, recipe: Recipe, most: int) -> int:
    """Rows to choose landmarks from: as many as components where all rows are taken."""
    if recipe.landmarks in ("uniform", GIVEN):
        return components
    return max(1, min(max(CANDIDATES, 4 * components), most))


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows of each part of the reservoir, and the other sizes of a fit.

    Parameters
    ----------
    n, p : of the source
    components : D
    holdout : rows that no gradient sees
    leverage_rows : rows outside the sample, which measure its leverage; 0 where every row may be a landmark
    sample : rows of the preconditioner's Gram matrix and of the warm start
    candidates : rows to choose landmarks from, which may be in the sample; as many as components where all are taken
    rounds : of a pass
    passes : of the steps
    polish : passes after them, at most
    """

    n: int
    p: int
    components: int
    holdout: int
    leverage_rows: int
    sample: int
    candidates: int
    rounds: int
    passes: int
    polish: int

    @classmethod
    def of(cls, n: int, p: int, recipe: Recipe) -> "Sizes":
        """The sizes of a fit.

        Examples
        --------
        >>> Sizes.of(15_000, 16, Recipe()).components
        2560
        """
        few = SOLVERS[recipe.solver].in_memory  # every row is a landmark, and in the sample
        if recipe.constant_map:
            return cls._with(1, n, p, recipe)
        if isinstance(recipe.n_components, int):
            return cls._with(recipe.n_components, n, p, recipe)
        if few and by_landmarks(recipe.features, auto=True):
            return cls._with(n, n, p, recipe)
        sizes = cls._with(cls.automatic(n, p, recipe.effort), n, p, recipe)
        while not few and sizes.components > STEP and sizes._flops() > global_flops(recipe):
            sizes = cls._with(sizes.components - STEP, n, p, recipe)
        return sizes

    @classmethod
    def _with(cls, components: int, n: int, p: int, recipe: Recipe) -> "Sizes":
        solver = SOLVERS[recipe.solver]
        holdout = _holdout_rows(n, recipe)
        rest = n - holdout
        leverage_rows = 0 if solver.in_memory else min(LEVERAGE_ROWS, max(1, rest // 10))
        judges = solver.prepared and recipe.alpha == "auto" and not holdout  # alphas, by rows that no start has seen
        if components > rest - leverage_rows and not (solver.in_rounds or judges):
            leverage_rows = 0  # all rows are asked for
        sample = min(_sample_rows(n, components), max(rest - leverage_rows, 1))
        candidates = _candidate_rows(components, recipe, rest - leverage_rows)
        # The epochs on a sample of most rows teach what more rounds could. On letter, magic, kin40k, california and
        # 10,000 rows of covtype (two seeds each) 64 rounds have the error of 32 within a hundredth of it, in a tenth
        # more of the time.
        taught = components <= MOST_DENSE and not passes_dominate(n, sample)
        rounds, passes, polish = recipe.rounds, recipe.passes, recipe.polish
        if isinstance(rounds, str):
            rounds = LEAST_ROUNDS if taught else cls.choose_rounds(n, p, components)
        if isinstance(passes, str):
            passes = max(1, solver.in_passes(cls.choose_passes(n, p, components, sample)))
        if isinstance(polish, str):
            usual = POLISH if taught else cls.choose_polish(n, p, components)
            polish = usual if _may_polish(recipe) else 0
        return cls(n, p, components, holdout, leverage_rows, sample, candidates, rounds, passes, polish)

    @staticmethod
    def choose_rounds(n: int, p: int, components: int) -> int:
        """Rounds of a source that is large: 64; of many rows a component and little work fewer, but not under 32.

        Examples
        --------
        >>> [Sizes.choose_rounds(n, 28, D) for n, D in [(100_000, 1000), (1_000_000, 1000), (1_000_000, 4000)]]
        [64, 32, 32]
        """
        if n < MANY_ROWS:
            return MOST_ROUNDS
        enough = max(pass_flops(n, p, components) / ROUND_FLOPS, LEAST_ROUNDS * (SETTLED * components / n) ** 2)
        return int(min(MOST_ROUNDS, max(LEAST_ROUNDS, enough)))

    @staticmethod
    def choose_passes(n: int, p: int, components: int, sample: int) -> int:
        """One pass; two of a large source with few rows for its components, where the second is cheaper than the setup.

        Examples
        --------
        >>> [Sizes.choose_passes(n, 54, D, 6 * D) for n, D in [(520_000, 5000), (520_000, 10_000), (30_000, 5000)]]
        [1, 2, 1]
        """
        few = passes_dominate(n, sample) and n < ENOUGH_ROWS * components
        return 2 if few and pass_flops(n, p, components) < _setup_flops(components) else 1

    @staticmethod
    def choose_polish(n: int, p: int, components: int) -> int:
        """Passes of a polish of a large source: with few rows for its components as many as cost what the setup does.

        Examples
        --------
        >>> [Sizes.choose_polish(n, 54, D) for n, D in [(520_000, 5000), (200_000, 4096), (520_000, 10_000)]]
        [0, 3, 9]
        """
        if components > MOST_DENSE or n >= ENOUGH_ROWS * components:
            return 0
        paid = int(_setup_flops(components) / pass_flops(n, p, components))
        return min(POLISH, paid) if paid >= LEAST_POLISH else 0

    @staticmethod
    def automatic(n: int, p: int, effort: str = "normal") -> int:
        """clip(max(8 sqrt(n), n / 6), 1024, 4096), and no more than the setup may cost and a model may hold.

        The setup is 6 D^3 flops (the Gram matrix of 6 D rows), a pass n D (2 p + 20): the setup may cost half a pass,
        or FREE_FLOPS. Rounded to half tiles.

        Parameters
        ----------
        effort : "high" allows n / 4 and 16,384, "low" takes 1,024

        Examples
        --------
        >>> [Sizes.automatic(n, 28) for n in (10_000, 10**6, 10**9)], Sizes.automatic(10**9, 28, "high")
        ([1792, 4096, 4096], 16384)
        """
        if effort == "low":
            return LEAST_COMPONENTS
        most = MOST_OF_HIGH if effort == "high" else MOST_COMPONENTS
        most = min(most, default_model_bytes(n, p, effort) // (4 * p))
        by_rows = float(np.clip(max(8 * n**0.5, n / ROWS_EACH[effort]), LEAST_COMPONENTS, max(most, LEAST_COMPONENTS)))
        affordable: float = max((FREE_FLOPS / SETUP_FLOPS) ** (1 / 3), (pass_flops(n, p, 1) / (2 * SETUP_FLOPS)) ** 0.5)
        return max(LEAST_COMPONENTS, STEP * round(min(by_rows, affordable) / STEP))

    def _flops(self) -> float:
        return _setup_flops(self.components) + (self.passes + self.polish) * pass_flops(self.n, self.p, self.components)

    def model_bytes(self, outputs: int) -> int:
        """Bytes of the components in a model file, about: landmarks or frequencies, and coefficients."""
        return 8 * self.components * (self.p + outputs)

    @property
    def large(self) -> bool:
        """True if the source is large beside its sample."""
        return passes_dominate(self.n, self.sample)

    @property
    def reservoir(self) -> int:
        """Number of rows of the reservoir."""
        return min(self.n, self.holdout + self.leverage_rows + max(self.components + self.sample, self.candidates))
