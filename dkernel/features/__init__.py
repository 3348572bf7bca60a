"""Maps of a block of rows to components, landmarks, and the scaling of rows."""

from dkernel.features.base import FeatureMap, map_from
from dkernel.features.choose import (
    FEATURES,
    Drawing,
    by_landmarks,
    choose_map,
    features_of_sparse,
    is_complete,
    resolve_features,
)
from dkernel.features.closures import ImageMap, ProductMap, WeightedMap
from dkernel.features.column_subset import SelectedMap
from dkernel.features.concatenation import StackedMap
from dkernel.features.monomials import MonomialMap, TaylorMap
from dkernel.features.nystrom import NystromMap
from dkernel.features.random.fourier import FORMS, FourierMap
from dkernel.features.random.projections import FAST
from dkernel.features.scaling import Scaling

__all__ = [
    "FAST",
    "FEATURES",
    "FORMS",
    "Drawing",
    "FeatureMap",
    "FourierMap",
    "ImageMap",
    "MonomialMap",
    "NystromMap",
    "ProductMap",
    "Scaling",
    "SelectedMap",
    "StackedMap",
    "TaylorMap",
    "WeightedMap",
    "by_landmarks",
    "choose_map",
    "features_of_sparse",
    "is_complete",
    "map_from",
    "resolve_features",
]
