"""Models and checkpoints as files, and back."""
