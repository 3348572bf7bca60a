"""Names of the types of arrays, for annotations."""

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]
Floats = NDArray[np.floating]
