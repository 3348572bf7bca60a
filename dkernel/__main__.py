"""`python -m dkernel`: the command `dkernel` where it is not on the PATH.

Python looks for the modules of `-m` in the folder of the call first. From here on no file of that folder is imported;
`python -P -m dkernel` also looks elsewhere for dkernel itself and for what Python imports before these lines.
"""

import os
import sys

# Worker processes import this module again: only the first may run the command.
if __name__ == "__main__":
    installed = sys.path[0] != os.path.dirname(os.path.dirname(__file__))
    if installed and not sys.flags.safe_path:
        del sys.path[0]
    from dkernel.cli import main

    main(prog_name="dkernel")
