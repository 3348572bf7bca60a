"""Refuses the address of a bucket that holds credentials: no store takes them there."""

import re

from dkernel.errors import DataError

_KEYS = re.compile(r"\b(s3|s3a|gs|gcs|r2)://[^/]*@")  # no name of a bucket has this sign


def refuse_keys(url: str) -> None:
    """Refuse a URL with a user or a key before the name of a bucket.

    Examples
    --------
    >>> refuse_keys("s3://KEY:SECRET@bucket/m.st")
    Traceback (most recent call last):
    dkernel.errors.DataError: s3://***@bucket/m.st: the address of a bucket holds no credentials. Give them ...
    """
    if _KEYS.search(url):
        raise DataError(
            f"{url}: the address of a bucket holds no credentials. Give them to the client and the workers: variables "
            "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role."
        )
