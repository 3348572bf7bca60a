"""The rungs of a choice, from many candidates on few rows to few candidates on many.

RUNGS, at the end of this file, is the whole search: `model_selection.climb` goes through it in this order, and a plan
states the work of a choice from the same table. A rung takes the leaders of the one before, judges candidates at its
fidelity, and returns its own leaders, the best first. To change the choice, change a line of the table; to add a rung,
add a line and its function.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter

from dkernel.losses.losses import Loss
from dkernel.solvers.sizes import LEAST_COMPONENTS
from dkernel.training.selection.candidate_space import CandidateSpace
from dkernel.training.selection.candidates import Candidate, SelectedModel
from dkernel.training.selection.descent import until_worse
from dkernel.training.selection.evaluation import Fidelity
from dkernel.training.selection.joint_loss import LEAST_JUDGED, compare_errors
from dkernel.training.selection.judge import Judge, Trial
from dkernel.training.selection.metric_learning import move_to_metric
from dkernel.training.selection.race import Race
from dkernel.training.selection.ways import GRIDS_ALONE

CLEARLY = 0.98  # a candidate that is less simple, or costs more a row, must have less than this share of the loss
# Most times that a grid of gamma is extended by two steps, until kernels are linear or 0.
EXTENSIONS = 4
FINALISTS = 6  # candidates that go on from the grid
METRIC_ROUNDS = 3  # fits, each in the metric of the one before
METRIC_ENDS = 0.995  # share of the loss of the round before; above it there are no more rounds
ENOUGH_JUDGED = 1000  # validation rows; with fewer, half of the components may look enough by chance
# If a doubling of the components gains half as much as the one before, all further doublings together gain as much as
# the last one. If this gain plus its standard error is below the first share of the loss, there are enough; above the
# second one more doubling cannot show it: at 512 landmarks it is 1.04 on kin40k, .37 letter, .08 california, .02 magic.
# On 10,000 rows of magic .01 takes 2,560 landmarks and twice the work of .015, which takes 1,024, for test errors of
# 12.09 and 11.86 instead of 12.04 and 11.83 %.
ENOUGH_GAIN, FAR_FROM_ENOUGH = 0.015, 0.04
_loss = attrgetter("loss")


@dataclass(frozen=True)
class OpenWords:
    """The size of a choice, as a plan knows it before it has read a row."""

    candidates: int
    kernels: int
    gamma: bool
    metric: bool


@dataclass(eq=False)
class Search:
    """The state of a choice.

    Parameters
    ----------
    candidates : candidates of the grid and its extensions
    metric_rounds : id of a family -> losses without a metric and after each round of learning one, and the components
        of these fits
    race : race of the ways to fit the machine; None if there is one way
    joint_loss : loss of all classes at once, which a linear kernel may have instead of the loss of the judge
    enough : components beyond which there is little to gain; None if that is not known
    joint : the choice of the linear kernel with the joint loss, if it is the better one
    """

    space: CandidateSpace
    judge: Judge
    candidates: list[Candidate]
    metric_rounds: dict[int, tuple[list[float], int]] = field(default_factory=dict)
    race: Race | None = None
    joint_loss: Loss | None = None
    enough: int | None = None
    joint: SelectedModel | None = None

    def loss_of(self, trial: Trial) -> float:
        """Return the loss of a trial as local stages have it, of all outputs together."""
        return trial.loss * self.judge.split.targets.outputs

    def linear(self) -> Candidate:
        """Return the linear kernel with the scale of the recipe."""
        scale = self.space.recipe.scale
        return self.space.linear("standard" if scale == "auto" else scale)


@dataclass(frozen=True)
class Rung:
    """One rung of the choice.

    Parameters
    ----------
    fidelity : components, rows to fit on and rows to judge on of each fit; a race of ways has samples of its own
    is_open : (search, leaders) -> whether it is climbed
    climb : (search, leaders, fidelity) -> leaders
    usual_fits : number of fits that it usually takes, for the plan; 0 if they cost little beside the others
    of_kernel : whether it is about the kernel alone; then it is left out if no way has components
    """

    name: str
    fidelity: Fidelity
    is_open: Callable[[Search, Sequence[Trial]], bool]
    climb: Callable[[Search, Sequence[Trial], Fidelity], list[Trial]]
    usual_fits: Callable[[OpenWords], int] = lambda _: 0
    of_kernel: bool = True


GRID_RUNG = Fidelity(256, 1024, 1024)
FINALIST_RUNG = Fidelity(512, 4096, 4096)
METRIC_RUNG = Fidelity(1024, 16_384, 4096)
LAST_RUNG = Fidelity(2048, 16_384, 4096)
JOINT_RUNG = replace(METRIC_RUNG, rows=FINALIST_RUNG.rows)
LEAST_FIDELITY = FINALIST_RUNG.components  # fewest components of a fidelity that is halved for a small budget


# --- ways to fit the machine


def has_race(search: Search, _: Sequence[Trial]) -> bool:
    """True if there are ways to choose from."""
    return search.race is not None and search.race.is_open


def has_early_race(search: Search, leaders: Sequence[Trial]) -> bool:
    """True if grids alone are fitted in any case, so that an early race may save the choice of a kernel."""
    return has_race(search, leaders) and search.race is not None and search.race.tried == (GRIDS_ALONE,)


def race_ways(search: Search, leaders: Sequence[Trial], _: Fidelity) -> list[Trial]:
    """Race the ways with the best kernel so far; those that can win go on.

    None is left if all ways with grids are tried and grids alone are better than the kernel, which the others refine.
    """
    race = search.race
    assert race is not None
    if leaders and search.loss_of(leaders[0]) >= race.reached:
        race.ways = []
    else:
        race.race(_leading(search, leaders))
    return list(leaders)


def _leading(search: Search, leaders: Sequence[Trial]) -> Candidate:
    """Return the best kernel so far."""
    return leaders[0].candidate if leaders else search.candidates[0]


# --- many candidates on few rows


def has_grid(search: Search, _: Sequence[Trial]) -> bool:
    """True if there are candidates to leave out."""
    return len(search.candidates) > 2


def try_grid(search: Search, _: Sequence[Trial], fidelity: Fidelity) -> list[Trial]:
    """Judge all candidates; the best few go on, with two of each family, and the next larger gamma of its best."""
    trials = extend_gamma(search, search.judge.trials(search.candidates, fidelity), fidelity)
    search.candidates += [trial.candidate for trial in trials if trial.candidate not in search.candidates]
    leaders = trials[:FINALISTS]
    for family in search.space.families:
        of_family = [trial for trial in trials if trial.candidate.family is family and trial not in leaders]
        leaders += [] if any(trial.candidate.family is family for trial in leaders) else of_family[:2]
    # With more components the next larger gamma may be better.
    for family in search.space.families:
        best = next(trial.candidate for trial in trials if trial.candidate.family is family)
        leaders += [trial for trial in trials if _is_next(trial.candidate, best) and trial not in leaders]
    return leaders


def _is_next(candidate: Candidate, best: Candidate) -> bool:
    """True if it differs from `best` by one step of gamma upwards."""
    return (candidate.family, candidate.scaling) == (best.family, best.scaling) and candidate.factor == 2 * best.factor


def can_try_finalists(search: Search, leaders: Sequence[Trial]) -> bool:
    """True unless the grid has used all rows, or its finalists cost too much at the next fidelity."""
    judge = search.judge
    if not leaders:
        return True
    if judge.within(GRID_RUNG) == judge.within(FINALIST_RUNG):
        return False
    families = [trial.candidate.family for trial in leaders]
    return judge.affordable_fidelity(FINALIST_RUNG, families, GRID_RUNG.components).components > GRID_RUNG.components


def try_finalists(search: Search, leaders: Sequence[Trial], fidelity: Fidelity) -> list[Trial]:
    """Judge the finalists; all of them go on."""
    candidates = [trial.candidate for trial in leaders] or search.candidates
    return extend_gamma(search, search.judge.trials(candidates, fidelity), fidelity)


def extend_gamma(search: Search, trials: Sequence[Trial], fidelity: Fidelity) -> list[Trial]:
    """Extend the gammas of each family whose best trial has the smallest or the largest of them."""
    trials = list(trials)
    for family in search.space.families:
        best = next(trial for trial in trials if trial.candidate.family is family)
        pairs = _pairs_beyond(search, best, fidelity)
        trials += chain(*until_worse(pairs, lambda pair: pair[0].loss, CLEARLY, best.loss))
    return sorted(trials, key=_loss)


def _pairs_beyond(search: Search, best: Trial, fidelity: Fidelity) -> Iterator[list[Trial]]:
    """Yield trials of the two next gammas as long as the best one is the smallest or the largest that was tried.

    A smaller gamma needs a smaller alpha, so none is tried if the alpha is given.
    """
    space, judge, now = search.space, search.judge, best.candidate
    for _ in range(EXTENSIONS if len(space.grid(now.family)) > 1 else 0):
        tried = [c.factor for c in judge.judged if (c.family, c.scaling) == (now.family, now.scaling)]
        lowest = now.factor == min(tried)
        if (lowest and space.recipe.alpha != "auto") or min(tried) < now.factor < max(tried):
            return
        yield (pair := judge.trials(space.at_multiples(now, (0.5, 0.25) if lowest else (2.0, 4.0)), fidelity))
        now = pair[0].candidate


# --- the metric, by rounds of fitting and learning


def always(_: Search, __: Sequence[Trial]) -> bool:
    return True


def can_learn_metrics(search: Search, _: Sequence[Trial]) -> bool:
    """True unless the effort is low: metrics take most of the time of a choice."""
    return search.space.recipe.effort != "low" or search.space.recipe.metric != "auto"


def learn_metrics(search: Search, leaders: Sequence[Trial], fidelity: Fidelity) -> list[Trial]:
    """Learn a metric for the best of the two best families; each goes on with or without it, judged alike."""
    finalists = best_of_families(leaders)
    families = [trial.candidate.family for trial in finalists for _ in range(6)]
    fidelity = search.judge.affordable_fidelity(fidelity, families, LEAST_FIDELITY)
    best, *others = finalists[:2]
    near = [trial for trial in others if trial.loss * CLEARLY * CLEARLY <= best.loss / CLEARLY]
    learned = [learn_metric(search, trial.candidate, fidelity) for trial in (best, *near)]
    first = learned[0].candidate.family
    return sorted(learned, key=lambda trial: trial.loss / (1.0 if trial.candidate.family is first else CLEARLY))


def learn_metric(search: Search, start: Candidate, fidelity: Fidelity) -> Trial:
    """Fit and learn a metric in rounds; return the best trial, or the start if the metric is no clear gain."""
    space, judge, kind = search.space, search.judge, search.space.choose_metric(start)
    before = judge.trials([start], fidelity)[0]
    if kind == "identity":
        return before
    rounds = [before]
    for turn in range(METRIC_ROUNDS):
        moved = _move(search, rounds[-1], fidelity, kind)
        multiples = (0.5, 1.0, 2.0) if turn == 0 else (1.0,)
        rounds.append(judge.trials(space.at_multiples(moved, multiples), fidelity)[0])
        if rounds[-1].loss > METRIC_ENDS * rounds[-2].loss:
            break
    best = min(rounds[1:], key=_loss)
    search.metric_rounds[id(start.family)] = [trial.loss for trial in rounds], judge.within(fidelity).components
    return best if judge.is_better(best, before) or space.recipe.metric != "auto" else before


def _move(search: Search, trial: Trial, fidelity: Fidelity, kind: str) -> Candidate:
    """Move a candidate to the metric of the gradients of its trial."""
    space, judge, candidate = search.space, search.judge, trial.candidate
    base = space.scaling(candidate.scaling.kind, candidate.family.shift_invariant)
    moment = judge.gradient_moment(trial, fidelity, space.recipe.seed)
    return move_to_metric(candidate, base, moment, judge.split.X[: judge.within(fidelity).rows], kind)


# --- the best on more components


def try_more_components(search: Search, leaders: Sequence[Trial], fidelity: Fidelity) -> list[Trial]:
    """Judge the best at its gamma and the next, since a large map can use a larger gamma; the better one goes on."""
    space, judge, best = search.space, search.judge, leaders[0]
    # With fewer landmarks than features a fit does not show how smooth a function of all features is.
    many = space.p > FINALIST_RUNG.components
    multiples = (1.0, 2.0, 0.25) if many else (1.0, 2.0)
    fidelity = judge.within(fidelity) if many else fidelity
    fidelity = judge.affordable_fidelity(fidelity, [best.candidate.family] * len(multiples), LEAST_FIDELITY)
    if len(search.candidates) == 1 or judge.within(fidelity).components <= FINALIST_RUNG.components:
        return list(leaders)
    first = judge.trials(space.at_multiples(best.candidate, multiples), fidelity)[0]
    wider = (0.25**k for k in range(1, EXTENSIONS + 1) if first.candidate.factor < best.candidate.factor)
    path = (judge.trials(space.at_multiples(first.candidate, (each,)), fidelity)[0] for each in wider)
    return [min([first, *until_worse(path, _loss, least=first.loss)], key=_loss), *leaders[1:]]


# --- the linear kernel, by which many features are learned


def can_try_linear(search: Search, _: Sequence[Trial]) -> bool:
    """True if the kernel is open and the components are not drawn."""
    return search.space.linear_is_open and search.judge.drawing is None


def try_linear(search: Search, leaders: Sequence[Trial], fidelity: Fidelity) -> list[Trial]:
    """Judge the linear kernel beside the best; it goes on if the best gains no more than a standard error."""
    space, judge, best = search.space, search.judge, leaders[0]
    linear = space.linear(best.candidate.scaling.kind)
    few = fidelity if space.p > FINALIST_RUNG.components else FINALIST_RUNG
    if judge.is_better(best, judge.trials([linear], few)[0]):
        return list(leaders)
    families = [best.candidate.family]
    both = judge.trials([best.candidate, linear], judge.affordable_fidelity(fidelity, families, LEAST_FIDELITY))
    of_linear, of_best = sorted(both, key=lambda trial: trial.candidate is best.candidate)
    return list(leaders) if judge.is_better(of_best, of_linear) else [of_linear, *leaders]


# --- components that are enough


def can_count_components(search: Search, leaders: Sequence[Trial]) -> bool:
    """True if a fit may have fewer components, and half of the landmarks can be judged beside all of them."""
    judge, race = search.judge, search.race
    if judge.components <= LEAST_COMPONENTS:
        return False
    few = leaders[0].candidate.plain and 2 * judge.p <= LEAST_COMPONENTS
    has_components = race is None or any(way.features == "kernel" for way in race.ways_to_fit())
    return has_components and (few or (judge.drawing is None and len(judge.split.X_judged) >= ENOUGH_JUDGED))


def count_components(search: Search, leaders: Sequence[Trial], fidelity: Fidelity) -> list[Trial]:
    """Judge the best with more and more components until a doubling gains little; it goes on unchanged."""
    judge, best = search.judge, leaders[0].candidate
    if best.plain and 2 * judge.p <= LEAST_COMPONENTS:
        search.enough = LEAST_COMPONENTS  # half of them are all features
        return list(leaders)
    for components in (FINALIST_RUNG.components, METRIC_RUNG.components, fidelity.components):
        level = replace(fidelity, components=components, halved=True)
        if 2 * judge.within(level).components > judge.components:
            continue
        result = judge.trials([best], level)[0].result
        if result.gain + result.error < ENOUGH_GAIN * result.loss:
            search.enough = max(components, LEAST_COMPONENTS)
            break
        if not result.gain < FAR_FROM_ENOUGH * result.loss:
            break
    return list(leaders)


# --- a loss of all classes at once


def can_try_joint_loss(search: Search, _: Sequence[Trial]) -> bool:
    """True if a joint loss is open with the linear kernel, and there are rows to judge it."""
    judge = search.judge
    is_open = search.joint_loss is not None and search.space.linear_is_open and judge.drawing is None
    return is_open and len(judge.split.X_judged) >= LEAST_JUDGED


def try_joint_loss(search: Search, leaders: Sequence[Trial], fidelity: Fidelity) -> list[Trial]:
    """Judge the linear kernel with the joint loss; it is the choice if it is better on few rows and on many."""
    judge, loss, linear, usual = search.judge, search.joint_loss, search.linear(), leaders[0].candidate
    assert loss is not None
    for each in dict.fromkeys(judge.within(each) for each in (GRID_RUNG, fidelity)):
        result = judge.joint_linear(linear.scaling, loss, each, search.space.recipe.alpha)
        if result is None:
            break
        search.joint, errors = None, compare_errors(result, judge.trials([usual], each)[0].result)
        if errors is None:
            break
        why = f"{loss.text} with {linear.kernel!r}: error {errors[0]:.4g} on {each.judged:,} other rows, and "
        why += f"{errors[1]:.4g} of {judge.split.loss.text} with {usual.kernel!r}"
        # Alpha is smaller for more rows, as with a constant C of a support vector machine.
        alpha = each.rows / len(search.space.rows.X) * result.alpha
        search.joint = SelectedModel(linear.kernel, linear.scaling, {"loss": why}, alpha=alpha, loss=loss.text)
    return list(leaders)


def best_of_families(trials: Sequence[Trial]) -> list[Trial]:
    """Return the best trial of each family, the best family first."""
    best: dict[int, Trial] = {}
    for trial in sorted(trials, key=_loss):
        best.setdefault(id(trial.candidate.family), trial)
    return list(best.values())


RUNGS = (
    Rung("grid", GRID_RUNG, has_grid, try_grid, lambda words: words.candidates),
    Rung("ways", FINALIST_RUNG, has_early_race, race_ways, of_kernel=False),
    Rung("finalists", FINALIST_RUNG, can_try_finalists, try_finalists, lambda words: min(words.candidates, 10)),
    # three gammas and the rounds, for each kernel
    Rung("metric", METRIC_RUNG, can_learn_metrics, learn_metrics, lambda words: 6 * words.kernels * words.metric),
    Rung("components", LAST_RUNG, always, try_more_components, lambda words: 2 * words.gamma),
    Rung("linear", LAST_RUNG, can_try_linear, try_linear),
    Rung("last ways", FINALIST_RUNG, has_race, race_ways, of_kernel=False),
    Rung("enough", LAST_RUNG, can_count_components, count_components, of_kernel=False),
    Rung("joint loss", JOINT_RUNG, can_try_joint_loss, try_joint_loss, of_kernel=False),
)
