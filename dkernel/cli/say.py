"""What a command says: on a terminal, in a log, to another program."""

import click

from dkernel.errors import escape_controls, mask_urls


def say(text: str, err: bool = False, nl: bool = True) -> None:
    """Print a text without the secrets of its URLs, and with the control characters of its names escaped.

    Parameters
    ----------
    err : to stderr
    nl : with an end of the line
    """
    click.echo(escape_controls(mask_urls(text)), err=err, nl=nl)
