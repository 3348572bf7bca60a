"""Output formats, destinations and their commit protocol."""
