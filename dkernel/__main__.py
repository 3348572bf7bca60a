"""`python -m dkernel`: the command `dkernel` where it is not on the PATH."""

from dkernel.cli import main

# Worker processes import this module again: only the first may run the command.
if __name__ == "__main__":
    main(prog_name="dkernel")
