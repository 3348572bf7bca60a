"""The hot loops: what is done to one cache tile of columns, in place, in float32.

Every function here has a plain numpy twin of the same name with `_reference` at its end, which defines it. A tile is a
C-contiguous float32 array; numba compiles one signature a function and keeps it on disk. The in-place functions take ONE
array: with two, LLVM cannot rule out that they overlap and gives up vectorising.

Source of the arithmetic: cos in turns and exp2 by range reduction to a short polynomial (ALGORITHMS 5.2).
"""
