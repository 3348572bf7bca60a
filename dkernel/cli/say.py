"""What a command says: on a terminal, in a log, to another program."""

import click

from dkernel.errors import escape_controls, mask_urls, wrap_lines


def say(text: str, err: bool = False, whole: bool = False) -> None:
    """Print a text without the secrets of its URLs, and with the control characters of its names escaped.

    Parameters
    ----------
    err : to stderr
    whole : with long lines as they are, such as those of a command to copy
    """
    text = escape_controls(mask_urls(text)).rstrip("\n")
    click.echo(text if whole else wrap_lines(text), err=err)
