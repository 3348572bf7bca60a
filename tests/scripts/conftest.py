"""Scripts are no packages: their tests find them by path."""

import sys

from tests.processes import ROOT

sys.path[:0] = [str(ROOT / "scripts" / "bench"), str(ROOT / "scripts")]
