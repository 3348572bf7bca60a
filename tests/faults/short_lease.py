"""`dkernel`, but what it changes in workers is taken back a second after its last task."""

from functools import partial

from dkernel.cli import main
from dkernel.run import remote

if __name__ == "__main__":
    remote.Settings = partial(remote.Settings, lease=1.0)
    main()
