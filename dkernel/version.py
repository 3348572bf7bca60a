"""The version of dkernel, as it is installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("dkernel")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+checkout"
