"""The lake's tables, read back as they were written."""

from pathlib import Path

import polars as pl
import pytest

from assets.lake import Lake
from assets.views import LakeError


@pytest.mark.parametrize(
    "name", ["plain", "with a space", "50%", "Übung", "a#b", "a?b", "a+b", "a*b", "{a}", "<a>", "50%z"]
)
def test_a_lake_is_readable_under_any_path(tmp_path: Path, name: str) -> None:
    lake = Lake(str(tmp_path / name / "lake"))
    frame = pl.DataFrame({"queue": ["q", "q"], "value": [1, 2]})
    lake.ensure("observations", frame.schema, "a-store")

    lake.write_table("scorecards", "q", frame)

    assert lake.scan("scorecards").filter(queue="q").collect().sort("value").equals(frame)
    assert lake.count("scorecards", "q") == 2


@pytest.mark.parametrize("name", ["[a]", "a^b", "a|b", "a\\b", "a%20b"])
def test_a_path_that_would_be_read_as_another_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LakeError, match="Set TESSERA_LAKE to a folder whose path has none of"):
        Lake(str(tmp_path / name / "lake"))
