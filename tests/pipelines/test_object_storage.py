"""Every command on a lake on S3, by a key whose secret stays with the environment."""

import json
import time

import pytest

from assets.lake import Lake
from pipelines import notebook_pages
from tests.object_store import BUCKET

QUEUE = "packing"


@pytest.fixture
def lake(s3, environment):
    """A lake on S3 that the commands use, and its place in the bucket."""
    place = f"commands-{time.time_ns()}"
    environment.setenv("TESSERA_LAKE", f"s3://{BUCKET}/{place}")
    return Lake(f"s3://{BUCKET}/{place}")


@pytest.mark.slow
def test_every_command_works_on_a_lake_on_s3_and_leaves_no_secret_behind(
    s3, lake, workspace, worked, environment, tmp_path
):
    worked(QUEUE, 9)
    ran = workspace("run", "--json")
    worked(QUEUE, 3)
    pulled = workspace("pull")
    status = json.loads(workspace("status", "--json").out)
    rebuilt = workspace("rebuild", "--queue", QUEUE)
    compacted = workspace("compact", "--json")
    assert json.loads(ran.out)["ok"]
    assert "3 new runs (12 in the lake, lag 0)" in pulled.out
    assert status["lake"]["location"] == lake.location
    assert (status["queues"][0]["rows"], status["queues"][0]["lag"]) == (12, 0)
    assert "12 rows in place of 12" in rebuilt.out
    assert {"table": "observations", "files_before": 1, "files": 1, "removed": 0} in json.loads(
        compacted.out
    )["tables"]
    assert workspace("doctor").out.endswith("all is well\n")

    gone = lake.open("observations").file_uris()[0].removeprefix(f"s3://{BUCKET}/")
    s3.delete(gone)
    looked = json.loads(workspace("doctor", "--json").out)
    assert gone in looked["findings"][0]["problem"]
    assert looked["findings"][0]["remedy"].startswith(f"workspace rebuild --queue {QUEUE}")
    assert workspace("rebuild", "--queue", QUEUE).status == 0

    counted = "select count(*) as runs from runs"
    answered = notebook_pages.sql(counted, runs=lake.observations(QUEUE))
    assert answered.rows() == [(12,)]

    wrong = "wrOng-Secret/0123456789+abcdef"
    environment.setenv("AWS_SECRET_ACCESS_KEY", wrong)
    refused = workspace("pull")
    assert refused.status == 1
    assert "The credentials are wrong: check AWS_ACCESS_KEY_ID" in refused.err
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    printed = "".join(f"{ended.out}{ended.err}" for ended in (ran, pulled, rebuilt, compacted, refused))
    for secret in (s3.secret, wrong):
        assert secret not in printed
        assert secret.encode() not in written
