"""Linear models of columns: losses, metrics, the preconditioner and the solvers. Knows no kernel and no feature map."""
