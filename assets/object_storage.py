"""Object storage under a lake: what its clients are told, and what its faults mean.

Two clients read and write a lake, one in deltalake and one in polars. Promises that both go to the same
endpoint, that a commit is put only if nobody was first, that a storage which does not answer is given up on
in about a minute, and that no word of a fault holds a secret. Credentials are never read here: both clients
take them from the environment, so that no object of ours holds one. Leaves out folders, which need none of
this.
"""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tessera.errors import SettingsError

PATIENCE_SECONDS = 45
_ANSWER_SECONDS = 30
_TRIES = 10
_YES = ("1", "on", "t", "true", "y", "yes")
_MOST_SAID = 600
SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")

CAUSES: tuple[tuple[str, str], ...] = (
    ("NoSuchBucket", "The bucket does not exist there: make it, or correct TESSERA_LAKE."),
    (
        "169.254.169.254|CredentialsNotLoaded|no credentials",
        "No credentials were found: set AWS_ACCESS_KEY_ID and its secret (see docs/object-storage.md).",
    ),
    ("ExpiredToken|RequestExpired", "The credentials have expired: renew AWS_SESSION_TOKEN and its key."),
    (
        "PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|301 Moved",
        "The bucket is in another region or at another endpoint: set AWS_REGION and AWS_ENDPOINT_URL.",
    ),
    (
        "InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|401 Unauthorized|Missing (Secret)?AccessKey",
        "The credentials are wrong: check AWS_ACCESS_KEY_ID{key} and its secret.",
    ),
    (
        "AccessDenied|403 Forbidden",
        "AWS_ACCESS_KEY_ID{key} may not do this: it has to list, get, put and delete under TESSERA_LAKE.",
    ),
    (
        "501 Not Implemented|NotImplemented",
        "The storage lacks what a lake needs, such as a conditional put: see docs/object-storage.md.",
    ),
    (
        "Connect|dns error|timed out|error sending request",
        "The storage does not answer: check AWS_ENDPOINT_URL{endpoint}, AWS_REGION and the network.",
    ),
    (
        r"\b50[0234] |SlowDown|ServiceUnavailable|InternalError",
        "The storage answered with errors of its own for as long as it was asked again: try later.",
    ),
)


def is_remote(location: str) -> bool:
    """Whether a lake lies on object storage, not in a folder."""
    return location.startswith("s3://")


def options(location: str, environ: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """What deltalake is told beside the environment's credentials; None for a folder.

    Raises SettingsError for an endpoint that would not be used as it stands.
    """
    if not is_remote(location):
        return None
    found = {
        # A commit is an object put under its version's name: never over one that is there.
        "aws_conditional_put": "etag",
        "aws_region": environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1",
        "retry_timeout": f"{PATIENCE_SECONDS}s",
        "backoff_config.init_backoff": "500ms",  # the tries, ten at most, then last for ten seconds and more
        "timeout": f"{_ANSWER_SECONDS}s",  # polars waits for ever by itself
    }
    endpoint = _endpoint(environ)
    if endpoint:
        found["aws_endpoint_url"] = endpoint
    return found


def reading(told: Mapping[str, str] | None) -> dict[str, Any] | None:
    """What polars is told beside that, so that it is as patient as deltalake is by itself."""
    if told is None:
        return None
    seconds = float(told["retry_timeout"].removesuffix("s"))
    return {"max_retries": _TRIES, "retry_timeout_ms": round(seconds * 1000)}


def bare(error: BaseException, environ: Mapping[str, str] = os.environ) -> str:
    """A fault in one line without colours and secrets.

    A service answers a wrong signature with all that was signed, a session's token among it, so of its answer
    only the code and the message are kept.
    """
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).replace("↳", " ").split())
    head, _, answer = text.partition("<?xml")
    told = re.search(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?", answer)
    text = f"{head}{': '.join(part for part in told.groups() if part)}" if told else head or text
    for name in SECRETS:
        if environ.get(name):
            text = text.replace(environ[name], f"({name})")
    return text.strip(" .:-")


def said(error: BaseException, environ: Mapping[str, str] = os.environ) -> str:
    """A fault as `bare` has it, and what to do about it where that is known."""
    text = bare(error, environ)
    advice = next((what for cause, what in CAUSES if re.search(cause, text)), "")
    key = environ.get("AWS_ACCESS_KEY_ID", "")
    names = {"key": f" ({key})" if key else "", "endpoint": f" ({_endpoint(environ) or 'not set'})"}
    return f"{text[:_MOST_SAID]}. {advice.format(**names)}".strip()


def _endpoint(environ: Mapping[str, str]) -> str | None:
    name = "AWS_ENDPOINT_URL_S3" if environ.get("AWS_ENDPOINT_URL_S3") else "AWS_ENDPOINT_URL"
    value = environ.get(name, "")
    if not value:
        return None
    parts = urlsplit(value)
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            f"{name} holds a name or password, which is not shown here. Give the address alone, and the "
            "credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{name} must be a URL such as https://s3.example.org, not {value!r}")
    if parts.scheme == "http" and environ.get("AWS_ALLOW_HTTP", "").lower() not in _YES:
        raise SettingsError(
            f"{name} is {value}, which is not encrypted. Use https://, or set AWS_ALLOW_HTTP=true."
        )
    return value.rstrip("/")
