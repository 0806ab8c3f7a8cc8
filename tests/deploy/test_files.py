"""The files of deploy/ are true: they parse, and name only settings, commands and options that exist."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config

from pipelines.instance import CONFIG, prepare
from tests.deploy.address import DEPLOY, DRAIN, NAME, ROOT, configured
from tests.test_docs import commands, settings

DAGSTER = yaml.safe_load((DEPLOY / "dagster.yaml").read_text("utf-8"))
OF_DAGSTER_ITSELF = {"DAGSTER_DISABLE_TELEMETRY"}


def variables(name: str) -> dict[str, str]:
    """What an environment file sets; systemd and a shell read each line alike."""
    lines = (DEPLOY / name).read_text("utf-8").splitlines()
    given = [line for line in lines if line and not line.startswith("#")]
    assert all(shlex.split(line) == [line] for line in given)
    return dict(line.split("=", 1) for line in given)


def asked(value: Any) -> set[str]:
    """The variables that a part of dagster.yaml takes from the environment."""
    if not isinstance(value, dict):
        return set()
    if value.keys() == {"env"}:
        return {value["env"]}
    return set().union(*(asked(below) for below in value.values()))


def unit(name: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / name)
    return parser["Service"]


def test_the_environment_files_name_only_settings_that_exist() -> None:
    assert variables("store.env").keys() <= settings()
    assert variables("workspace.env").keys() <= settings() | asked(DAGSTER) | OF_DAGSTER_ITSELF


def test_what_dagster_takes_from_the_environment_is_set_and_no_secret_is_in_its_file() -> None:
    database = DAGSTER["storage"]["postgres"]["postgres_db"]

    assert asked(DAGSTER) <= variables("workspace.env").keys()
    assert asked({"password": database["password"]}) == {"DAGSTER_PG_PASSWORD"}


def test_dagsters_file_is_one_that_dagster_takes_and_keeps_a_queues_runs_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(DEPLOY / "dagster.yaml", tmp_path)
    for name in asked(DAGSTER):
        monkeypatch.setenv(name, "5432")

    taken, _ = dagster_instance_config(str(tmp_path))

    ours = yaml.safe_load(CONFIG)
    assert taken["telemetry"] == ours["telemetry"] == {"enabled": False}
    limits = [each["concurrency"]["runs"]["tag_concurrency_limits"] for each in (DAGSTER, ours)]
    assert limits[0] == limits[1]


def test_a_dagster_yaml_that_is_there_is_left_alone(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "dagster.yaml", tmp_path)

    prepare(tmp_path)

    assert (tmp_path / "dagster.yaml").read_bytes() == (DEPLOY / "dagster.yaml").read_bytes()


def test_the_stores_unit_starts_a_command_that_exists_with_its_options() -> None:
    command = shlex.split(unit("tessera@.service")["ExecStart"])
    options = {option for parameter in commands()["tessera serve"].params for option in parameter.opts}

    assert command[1] == "serve"
    assert {word for word in command if word.startswith("--")} <= options
    assert command[-2:] == list(DRAIN)  # what the tests run is what is shipped


def test_the_daemons_unit_starts_a_command_that_exists_with_its_options() -> None:
    from dagster._daemon.cli import run_command

    service = unit("workspace-daemon.service")
    command = shlex.split(service["ExecStart"])
    options = {option for parameter in run_command.params for option in parameter.opts}

    assert command[1:3] == ["run", "-w"]
    assert "-w" in options
    assert (ROOT / command[3]).exists()


@pytest.mark.parametrize("name", ["tessera@.service", "workspace-daemon.service"])
def test_a_unit_reads_the_environment_file_of_its_own(name: str) -> None:
    file = Path(unit(name)["EnvironmentFile"]).name

    assert (DEPLOY / file).exists()


@pytest.mark.parametrize(
    ("name", "file"), [("tessera@.service", "store.env"), ("workspace-daemon.service", "workspace.env")]
)
def test_a_unit_may_write_into_every_folder_that_its_settings_name_and_no_other(name: str, file: str) -> None:
    service = unit(name)
    writable = {Path(path.removeprefix("-")) for path in service["ReadWritePaths"].split()}
    named = {Path(value) for value in variables(file).values() if value.startswith("/")}

    assert service["ProtectSystem"] == "strict"
    assert service["NoNewPrivileges"] == "yes"
    assert named
    assert all(any(folder.is_relative_to(path) for path in writable) for folder in named)
    assert all(any(folder.is_relative_to(path) for folder in named) for path in writable)


@pytest.mark.parametrize("name", ["tessera@.service", "workspace-daemon.service"])
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_a_unit_as_it_is(tmp_path: Path, name: str) -> None:
    text = (DEPLOY / name).read_text("utf-8")
    file = tmp_path / name.replace("@.", "@8765.")
    file.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE), "utf-8")

    said = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, timeout=60)

    assert (said.returncode, said.stderr) == (0, "")


def test_nginx_and_the_stores_agree_on_names_ports_and_times() -> None:
    conf = configured({})
    (idle,) = re.findall(r"^\s*keepalive_timeout (\d+)s;", conf, re.MULTILINE)
    (name,) = re.findall(r"^\s*server_name (\S+);", conf, re.MULTILINE)
    (size,) = re.findall(r"^\s*client_max_body_size (\d+)m;", conf, re.MULTILINE)

    assert name == variables("store.env")["TESSERA_HOSTS"] == NAME
    assert variables("workspace.env")["TESSERA_URL"] == "http://127.0.0.1:8080"
    assert int(idle) < int(DRAIN[1])
    assert int(size) >= 16
    assert "non_idempotent" not in re.sub(r"#.*", "", conf)


def test_nginx_takes_the_file_as_it_is(nginx_program: str, tmp_path: Path) -> None:
    places = {"/var/log/nginx/tessera.log": str(tmp_path / "tessera.log")}
    (tmp_path / "tessera.conf").write_text(configured(places), "utf-8")
    main = tmp_path / "nginx.conf"
    main.write_text(f"pid {tmp_path}/pid; events {{}} http {{ include {tmp_path}/tessera.conf; }}", "utf-8")

    said = subprocess.run(
        [nginx_program, "-t", "-p", str(tmp_path), "-e", str(tmp_path / "error.log"), "-c", str(main)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 0, said.stderr
    assert "warn" not in said.stderr
