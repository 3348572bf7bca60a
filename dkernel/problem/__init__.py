"""The learning problem: targets, sizes, sample and objective."""
