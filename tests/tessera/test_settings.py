"""Settings: defaults from any folder, and refusals that name the variable."""

from pathlib import Path

import pytest

from tessera import settings as module
from tessera.errors import SettingsError
from tessera.settings import DEFAULT_URL, Settings

ROOT = Path(__file__).resolve().parents[2]


def test_everything_lies_under_the_projects_root_by_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.from_environment({})
    assert settings.home == ROOT / ".tessera"
    assert (settings.url, settings.key, settings.database_url) == (DEFAULT_URL, None, None)
    assert settings.lake == str(ROOT / ".tessera" / "lake")
    assert settings.dagster_home == ROOT / ".tessera" / "dagster"


def test_a_home_moves_what_is_not_named_itself(tmp_path: Path) -> None:
    settings = Settings.from_environment({"TESSERA_HOME": str(tmp_path), "TESSERA_LAKE": "s3://bucket/lake"})
    assert settings.home == tmp_path
    assert settings.lake == "s3://bucket/lake"
    assert settings.dagster_home == tmp_path / "dagster"


def test_a_worker_without_a_checkout_needs_no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_ROOT", tmp_path)

    settings = Settings.from_environment({"TESSERA_URL": "http://store:8765", "TESSERA_KEY": "tsk_x"})

    assert (settings.url, settings.require_key()) == ("http://store:8765", "tsk_x")
    for needed in ("home", "lake", "dagster_home", "admin_key_file"):
        with pytest.raises(SettingsError, match="Set TESSERA_HOME"):
            getattr(settings, needed)
    with pytest.raises(SettingsError, match="no API key: TESSERA_KEY is not set"):
        Settings.from_environment({}).require_key()


def test_an_empty_value_counts_as_unset() -> None:
    names = (
        "TESSERA_HOME",
        "TESSERA_URL",
        "TESSERA_KEY",
        "TESSERA_DATABASE_URL",
        "TESSERA_LAKE",
        "TESSERA_PART_ROWS",
        "TESSERA_PROCESSES",
        "DAGSTER_HOME",
    )
    assert Settings.from_environment(dict.fromkeys(names, "")) == Settings.from_environment({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TESSERA_HOME", "home"),
        ("TESSERA_HOME", "./home"),
        ("TESSERA_LAKE", "lake"),
        ("TESSERA_LAKE", "~/lake"),
        ("TESSERA_LAKE", "https://bucket/lake"),
        ("TESSERA_LAKE", "s3://"),
        ("TESSERA_LAKE", "s3://bucket/a b"),
        ("TESSERA_LAKE", "s3://bucket/100%"),
        ("TESSERA_LAKE", "s3://bucket/../lake"),
        ("TESSERA_LAKE", "s3://bucket/day=1"),
        ("DAGSTER_HOME", "dagster"),
        ("TESSERA_URL", "127.0.0.1:8765"),
        ("TESSERA_URL", "http://"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_name_and_value(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({name: value})
    assert name in str(caught.value)
    assert value in str(caught.value)


@pytest.mark.parametrize("value", ["s3://bucket", "s3://bucket/team.a/lake_1", "s3://bucket/lake/"])
def test_a_lake_may_be_a_bucket_or_a_place_in_one(value: str) -> None:
    assert Settings.from_environment({"TESSERA_LAKE": value}).lake == value.rstrip("/")


def test_a_lake_that_holds_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(SettingsError, match="must not hold a name or password") as caught:
        Settings.from_environment({"TESSERA_LAKE": "s3://me:hush-hush@bucket/lake"})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("value", ["data/tessera.db", "sqlite:///relative.db"])
def test_a_relative_database_is_refused_by_name(value: str) -> None:
    with pytest.raises(SettingsError, match="TESSERA_DATABASE_URL"):
        Settings.from_environment({"TESSERA_DATABASE_URL": value})


def test_no_secret_is_shown() -> None:
    settings = Settings.from_environment(
        {"TESSERA_KEY": "hush-hush", "TESSERA_DATABASE_URL": "postgresql://u:hush-hush@db/t"}
    )
    assert settings.require_key() == "hush-hush"
    assert "hush" not in repr(settings)
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({"TESSERA_KEY": "hush\u00e9"})
    assert "hush" not in str(caught.value)


def test_without_a_key_the_admin_key_of_the_home_is_used(tmp_path: Path) -> None:
    settings = Settings.from_environment({"TESSERA_HOME": str(tmp_path)})
    (tmp_path / "admin.key").write_text("from-the-home\n")
    assert settings.require_key() == "from-the-home"


def test_without_any_key_the_refusal_says_what_to_do(tmp_path: Path) -> None:
    settings = Settings.from_environment({"TESSERA_HOME": str(tmp_path)})
    with pytest.raises(SettingsError, match=r"TESSERA_KEY.*tessera serve"):
        settings.require_key()


def test_names_that_a_server_answers_for_are_separated_by_commas() -> None:
    settings = Settings.from_environment({"TESSERA_HOSTS": "store.example, [fd00::1],other_one"})

    assert settings.hosts == ("store.example", "[fd00::1]", "other_one")
    assert Settings.from_environment({"TESSERA_HOSTS": ""}).hosts == ()


@pytest.mark.parametrize("value", ["http://store.example", "store.example:80", "fd00::1", "a b", "*"])
def test_a_name_with_more_than_a_host_is_refused_by_name(value: str) -> None:
    with pytest.raises(SettingsError, match="TESSERA_HOSTS"):
        Settings.from_environment({"TESSERA_HOSTS": value})


def test_a_count_is_a_whole_number_of_at_least_1() -> None:
    assert Settings.from_environment({"TESSERA_PART_ROWS": "1000"}).part_rows == 1000
    for value in ("0", "-1", "1.5", "many", "9" * 10):
        with pytest.raises(SettingsError, match="TESSERA_PROCESSES must be a whole number"):
            Settings.from_environment({"TESSERA_PROCESSES": value})
