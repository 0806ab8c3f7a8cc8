"""Whether a service that is not AWS decides a conditional put, asked before a lake is made there.

One that ignores the condition would let a commit overwrite another, and nobody would notice until runs are
missing. Promises one small object, put twice and removed. Leaves out AWS, which documents it, and keys that
are not in the environment: without one nothing is asked. The signature is AWS Signature Version 4.
"""

import hashlib
import hmac
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import httpx

from assets.views import LakeError

_PROBE = "conditional-put-probe"
_SECONDS = 30.0


def check(location: str, told: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> None:
    """Raise LakeError when the service overwrites what was to be put only once.

    A service that answers otherwise than with success says nothing here: the first commit will tell.
    """
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if "aws_endpoint_url" not in told or not key or not secret:
        return
    url = f"{told['aws_endpoint_url']}/{quote(location.removeprefix('s3://'))}/{_PROBE}"
    try:
        with httpx.Client(timeout=_SECONDS) as client:
            answers = [
                client.request(
                    method, url, headers=_headers(method, url, told["aws_region"], key, secret, environ)
                )
                for method in ("PUT", "PUT", "DELETE")
            ]
    except httpx.HTTPError:
        return
    if all(answer.is_success for answer in answers[:2]):
        raise LakeError(
            f"the storage at {told['aws_endpoint_url']} overwrites what was put with `If-None-Match: *`, so "
            "one commit could overwrite another and lose runs. Nothing was made. Use a service that decides "
            "conditional puts (docs/object-storage.md)."
        )


def _headers(
    method: str, url: str, region: str, key: str, secret: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """The headers of an empty request, signed."""
    parts, now = urlsplit(url), datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    nothing = hashlib.sha256(b"").hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": nothing, "x-amz-date": now}
    if method == "PUT":
        headers["if-none-match"] = "*"
    if environ.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = environ["AWS_SESSION_TOKEN"]
    names = ";".join(sorted(headers))
    listed = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = f"{method}\n{parts.path}\n\n{listed}\n{names}\n{nothing}"
    scope = f"{now[:8]}/{region}/s3/aws4_request"
    signed = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signing = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    signature = hmac.digest(signing, signed.encode(), "sha256").hex()
    authorization = f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "authorization": authorization}
