"""Linear models on components: losses, metrics, the preconditioner, the solvers; no kernels, no feature maps."""
