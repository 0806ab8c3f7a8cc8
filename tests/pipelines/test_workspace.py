"""The `workspace` command against a real store: what it does, what it says, how it fails."""

import json
from dataclasses import replace

import dagster as dg
import pytest
import yaml
from polars.testing import assert_frame_equal

from assets import pack, specs
from assets.lake import Lake
from assets.pull import pull
from learners.path_statistics import PathStatistics
from pipelines.definitions import definitions, defs
from pipelines.instance import RUNS, instance, prepare
from schemas.observations import frame
from schemas.pages import read_fast


def test_a_run_pulls_every_queue_and_the_next_one_only_what_is_new(workspace, worked, tmp_path):
    worked("packing", 5)
    worked("sorting", 3)
    worked("learn.runs", 2)
    first = workspace("run", "--json")
    worked("packing", 2)
    second = workspace("run")
    assert first.status == 0, first
    made = {
        one["queue"]: one["materialized"]["observations"]["rows_added"]
        for one in json.loads(first.out)["queues"]
    }
    assert made == {"packing": 5, "sorting": 3}
    assert second.status == 0
    assert "packing: 2 new runs (7 in the lake, lag 0), no learner is configured for it" in second.out
    assert second.err == ""
    with instance(tmp_path / "workspace" / "dagster") as history:
        assert sorted(history.get_dynamic_partitions("queue")) == ["packing", "sorting"]
        assert [record.dagster_run.status.value for record in history.get_run_records()] == ["SUCCESS"] * 4


def test_names_are_printed_as_they_are(workspace, worked, store, tmp_path, environment):
    """Between colons, as in a key, rich knows `email` for a picture."""
    worked("email", 5)
    client = store.client()
    pack.write(tmp_path / "pack")
    specs.install(client, pack.read(tmp_path / "pack"))
    spec = "path_statistics:wilson-grouping:v1"
    specs.configure(client, spec, "email", options={"dimensions": ["method"]})

    ran = workspace("run")

    assert f"path_scorecard at learn.outputs/{spec}:email:method\n" in ran.out


def test_the_lake_holds_what_the_store_says_to_the_bit(store, worked, tmp_path):
    worked("packing", 7, tags=["b", "a"], goal="größer", extra={"deep": [1]})
    client, lake = store.client(), Lake(str(tmp_path / "lake"))
    pull(client, lake, "packing", page_size=3)
    items = list(client.iter_observations("packing"))
    assert len(items) == 7
    assert read_fast([client.observation_page("packing")]).height == 7  # what the store writes is read fast
    assert_frame_equal(lake.observations("packing"), frame(items), check_exact=True)


def test_a_failing_queue_is_one_line_and_the_others_go_on(workspace, worked, store, environment):
    worked("packing", 3)
    assert workspace("pull").status == 0
    worked("sorting", 2)
    environment.setenv("TESSERA_KEY", store.key(["read"])["secret"])
    ended = workspace("pull")
    assert ended.status == 1
    assert "sorting: 2 new runs" in ended.out
    [line] = ended.err.splitlines()
    assert line.startswith("failed packing: the lake's runs of queue packing were read by key")
    assert "Run `workspace rebuild --queue packing`" in line


def test_a_rebuild_takes_the_queue_over_for_another_key(workspace, worked, store, environment):
    worked("packing", 4)
    assert workspace("pull").status == 0
    environment.setenv("TESSERA_KEY", store.key(["read"], ["packing"], kinds=["verb.other"])["secret"])
    assert workspace("pull", "--queue", "packing").status == 1
    ended = workspace("rebuild", "--queue", "packing", "--json")
    assert ended.status == 0, ended
    done = json.loads(ended.out)
    assert (done["rows_before"], done["rows"], done["cursor"]) == (4, 0, "4")
    assert workspace("pull", "--queue", "packing").status == 0


def test_status_shows_cursors_lag_and_what_was_last_made(workspace, worked):
    worked("packing", 4)
    assert workspace("pull").status == 0
    worked("packing", 3)
    worked("sorting", 1)
    shown = workspace("status")
    found = json.loads(workspace("status", "--json").out)
    assert shown.status == 0
    assert len(shown.out.splitlines()) <= 10
    packing, sorting = found["queues"]
    assert (packing["queue"], packing["cursor"], packing["rows"], packing["lag"]) == ("packing", "4", 4, 3)
    assert packing["materialized"]["observations"]["run_id"]
    assert (sorting["cursor"], sorting["lag"], sorting["materialized"]["observations"]) == ("0", 1, None)


def test_a_failed_check_is_one_line_that_names_it_and_its_rows(
    workspace, worked, store, tmp_path, environment
):
    name = "path_statistics:wilson-grouping:v1"
    pack.write(tmp_path / "pack")
    client = store.client()
    specs.install(client, pack.read(tmp_path / "pack"))
    specs.configure(client, name, "packing")
    worked("packing", 3)
    wrong = replace(PathStatistics.checks[1], find=lambda outcome: [f"{outcome.nouns[0].key}: 2 of 3"])
    environment.setattr(PathStatistics, "checks", [PathStatistics.checks[0], wrong])

    ended = workspace("run")

    assert ended.status == 1
    [line] = ended.err.splitlines()
    told = "nothing was published, 1 of 2 checks failed; counts_add_up:"
    assert line == f"failed packing: {name}: {told} {name}:packing: 2 of 3"


def test_status_tells_the_last_failure(workspace, worked, store, environment):
    worked("packing", 1)
    assert workspace("pull").status == 0
    environment.setenv("TESSERA_KEY", store.key(["read"])["secret"])
    assert workspace("pull").status == 1
    shown = workspace("status")
    assert "! packing: the lake's runs of queue packing were read by key" in shown.out


@pytest.mark.parametrize("command", ["run", "status", "doctor"])
def test_a_history_that_cannot_be_opened_is_one_line_that_names_its_file(
    workspace, worked, tmp_path, command
):
    """So is a database that is away, after the ten seconds in which Dagster asks again."""
    worked("packing", 1)
    config = tmp_path / "workspace" / "dagster" / "dagster.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("storage: {nonsense: a password}\n")

    ended = workspace(command)

    assert ended.status == 1
    [line] = ended.err.splitlines()
    assert line.startswith(f"failed Dagster's history of {config.parent} cannot be opened (")
    assert f"look at {config}" in line
    assert "a password" not in line
    assert ("packing" in ended.out) == (command == "status")


def test_a_home_that_cannot_be_written_is_one_line_that_names_its_file(
    workspace, worked, environment, tmp_path
):
    worked("packing", 1)
    (tmp_path / "file").write_text("")
    environment.setenv("DAGSTER_HOME", str(tmp_path / "file" / "dagster"))

    ended = workspace("run")

    assert (ended.status, ended.out) == (1, "")
    assert ended.err == f"failed {tmp_path}/file/dagster: Not a directory\n"


def test_an_unreachable_store_is_said_and_status_shows_what_the_lake_has(workspace, worked, environment):
    worked("packing", 2)
    assert workspace("pull").status == 0
    environment.setenv("TESSERA_URL", "http://127.0.0.1:9")
    shown, failed = workspace("status"), workspace("run")
    assert (shown.status, failed.status) == (1, 1)
    assert "is not read" in shown.out
    assert "packing" in shown.out
    assert "failed cannot reach the store at http://127.0.0.1:9" in failed.err


def test_a_queue_that_the_store_does_not_have_is_told_from_one_that_has_nothing_new(workspace, worked):
    worked("packing", 1)
    ended = workspace("pull", "--queue", "packing", "--queue", "paking")
    packing, paking = ended.out.splitlines()
    assert "under this name" not in packing
    assert "no run that this key may read is in the store under this name" in paking


def test_each_fault_that_the_store_names_stands_apart(workspace):
    ended = workspace("run", "--queue", "no queue")
    assert ended.status == 1
    assert "the request is not as it must be; queue: must be 1 to 64" in ended.err


def test_a_home_that_is_no_folder_is_one_line(workspace, worked, tmp_path, environment):
    worked("packing", 1)
    (tmp_path / "file").touch()
    environment.setenv("DAGSTER_HOME", str(tmp_path / "file" / "dagster"))
    ended = workspace("run")
    assert ended.status == 1
    assert ended.err.splitlines() == [f"failed {tmp_path / 'file' / 'dagster'}: Not a directory"]


def test_another_store_is_refused_by_every_command(workspace, worked, store, tmp_path, environment):
    worked("packing", 2)
    assert workspace("pull").status == 0
    lake = Lake(str(tmp_path / "workspace" / "lake"))
    version = lake.version("observations")
    from tests.page_store import PageStore

    with PageStore() as other:
        environment.setenv("TESSERA_URL", other.url)
        for command in (["run"], ["pull"], ["status"], ["rebuild", "--queue", "packing"]):
            ended = workspace(*command)
            assert ended.status == 1
            assert "holds runs of store" in ended.err
            assert "Set TESSERA_LAKE to another place" in ended.err
    assert lake.version("observations") == version


def test_a_queue_that_is_not_granted_fails_and_names_it(workspace, store, environment):
    environment.setenv("TESSERA_KEY", store.key(["read"], ["packing"])["secret"])
    ended = workspace("pull", "--queue", "sorting")
    assert ended.status == 1
    assert ended.err.startswith("failed sorting: 403")


def test_a_store_without_runs_leaves_nothing_to_do(workspace):
    ended = workspace("run")
    assert (ended.status, ended.err) == (0, "")
    assert "nothing to do" in ended.out


def test_wrong_usage_ends_with_status_2(workspace):
    assert workspace("frobnicate").status == 2
    assert workspace("rebuild").status == 2
    assert workspace("run", "--queue", "learn.runs").status == 2


def test_a_relative_lake_is_refused(workspace, environment):
    environment.setenv("TESSERA_LAKE", "lake")
    ended = workspace("status")
    assert ended.status == 1
    assert "TESSERA_LAKE must be an absolute path" in ended.err


def test_the_definitions_load_without_a_store_or_a_key(environment, monkeypatch):
    monkeypatch.delenv("TESSERA_URL", raising=False)
    dg.Definitions.validate_loadable(definitions())
    assert {"observations", "path_scorecard"} <= {
        key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()
    }


def test_dagsters_home_is_made_with_telemetry_off_and_a_persons_own_is_left_alone(tmp_path):
    home = prepare(tmp_path / "dagster")
    written = yaml.safe_load((home / "dagster.yaml").read_text())
    assert written["telemetry"] == {"enabled": False}
    with instance(home) as made:
        assert made.telemetry_enabled is False
        assert made.get_concurrency_config().run_queue_config.max_concurrent_runs == RUNS
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    prepare(home)
    assert (home / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"
