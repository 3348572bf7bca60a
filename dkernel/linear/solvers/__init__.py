"""Solvers as pure state machines: settings, a state of arrays and counters, a step that returns the next state."""
