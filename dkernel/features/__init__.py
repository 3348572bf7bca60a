"""Feature maps: φ of one block, born fitted, and the scaling that stands before them. Imports kernels and floor 0."""

from dkernel.features.base import FeatureMap, map_from
from dkernel.features.fourier import FORMS, FourierMap
from dkernel.features.nystrom import NystromMap
from dkernel.features.projections import FAST
from dkernel.features.scaling import Scaling

__all__ = ["FAST", "FORMS", "FeatureMap", "FourierMap", "NystromMap", "Scaling", "map_from"]
