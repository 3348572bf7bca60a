"""`dkernel`, but what it changes in workers is taken back a second after its last task."""

from functools import partial

from dkernel.cli import main
from dkernel.streaming.execution import cluster

if __name__ == "__main__":
    cluster.Settings = partial(cluster.Settings, lease=1.0)
    main()
