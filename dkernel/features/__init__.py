"""Feature maps: φ of one block, born fitted, and the scaling that stands before them. Imports kernels and floor 0."""

from dkernel.features.base import FeatureMap, map_from
from dkernel.features.chi2 import Chi2Map
from dkernel.features.choose import FEATURES, Drawing, choose_map, features_named, features_of_sparse, words_of
from dkernel.features.exact import MonomialMap, TaylorMap
from dkernel.features.fourier import FORMS, FourierMap
from dkernel.features.maclaurin import MaclaurinMap
from dkernel.features.nystrom import NystromMap
from dkernel.features.projections import FAST
from dkernel.features.relu import ReluMap
from dkernel.features.scaling import Scaling
from dkernel.features.selected import SelectedMap
from dkernel.features.stacked import StackedMap
from dkernel.features.tensorsketch import TensorSketchMap

__all__ = [
    "FAST",
    "FEATURES",
    "FORMS",
    "Chi2Map",
    "Drawing",
    "FeatureMap",
    "FourierMap",
    "MaclaurinMap",
    "MonomialMap",
    "NystromMap",
    "ReluMap",
    "Scaling",
    "SelectedMap",
    "StackedMap",
    "TaylorMap",
    "TensorSketchMap",
    "choose_map",
    "features_named",
    "features_of_sparse",
    "map_from",
    "words_of",
]
