"""Feature maps: φ of one block, born fitted, and the scaling that stands before them. Imports kernels and floor 0."""

from dkernel.features.base import FeatureMap, map_from
from dkernel.features.fourier import FourierMap
from dkernel.features.nystrom import NystromMap
from dkernel.features.scaling import Scaling

__all__ = ["FeatureMap", "FourierMap", "NystromMap", "Scaling", "map_from"]
