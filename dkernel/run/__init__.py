"""Running: executors, rounds, ordered reductions, training and scoring; what reads data in pieces and adds them up."""
