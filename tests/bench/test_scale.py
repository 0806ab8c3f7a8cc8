"""The simulator of what grows, beside a real store after real index runs: exact where it says so."""

from pathlib import Path

from assets import pack, runs, specs
from assets.lake import Lake
from assets.memory_index import SHOWN
from assets.views import View
from assets.writer import Writer
from bench.memory_index import QUEUE, rows
from bench.scale import Costs, batches, grown, index_of
from learners.memory import LEARNER
from tessera.canonical import dumps
from tessera.store.operation_costs import measured
from tessera.store.sqlite import SqliteDatabase
from tessera.store.write_cost import measure
from tests.conftest import StoreServer

COSTS = Costs()


def test_head_manifests_and_rows_written_are_exactly_those_of_a_real_index(
    store: StoreServer, tmp_path: Path
) -> None:
    client, lake, database = store.client(), Lake(str(tmp_path / "lake")), store.running.store.database
    assert isinstance(database, SqliteDatabase)
    specs.install(client, [pack.noun(name, spec) for name, spec in pack.SPECS.items()])
    specs.configure(client, "memory:minhash-lsh:v1", QUEUE)
    writer = Writer(lake, QUEUE, View.of(client.whoami()))
    (entry,) = specs.entries_of(client, QUEUE)
    prepared = runs.prepare(client, entry)
    simulated, store_name, head = index_of(prepared.run), *LEARNER.state_key(prepared.run.scope, {})

    for count, size in ((32, 32), (1, 1), (300, 300), (32_000, 2_000)):
        first = simulated.cursor + 1
        writer.append(rows(first, count), first + count - 1)
        before, written = simulated.rows, database.rows_changed
        SHOWN.learn(client, lake, QUEUE)
        grown(
            simulated, (range(first + part[0] - 1, first + part[-1]) for part in batches(count, size)), COSTS
        )

        body = client.get_record(store_name, head)["body"]
        assert (body["entries"], body["cursor"]) == (simulated.entries, str(simulated.cursor))
        assert len(body["segments"]) == len(simulated.pins)
        assert len(body["manifests"]) == simulated.manifests
        assert len(dumps(body)) == simulated.head_bytes
        assert database.rows_changed - written == simulated.rows - before

    assert simulated.manifests == 1
    assert client.get_record(store_name, head)["version"] == simulated.runs


def test_a_draw_writes_one_row(store: StoreServer) -> None:
    client, database = store.client(), store.running.store.database
    assert isinstance(database, SqliteDatabase)
    client.enqueue("q", "verb.a", {})
    task = client.claim("q")
    assert task is not None
    arms = [{"arm": "a", "weight": 0.5}, {"arm": "b", "weight": 0.5}]

    spent = measure(database, lambda: client.draw(task["task_id"], task["fence"], "method", arms))

    assert spent.total == COSTS.draw


def test_the_costs_of_operations_are_those_that_the_store_measures() -> None:
    table = measured()
    found = {cost.operation: cost.entries for cost in table}
    rows_of = {cost.operation: cost.tables for cost in table}

    assert COSTS.index_rows == rows_of["memory run of one segment"]
    assert (COSTS.enqueue, COSTS.claim, COSTS.submit) == (
        found["enqueue"],
        found["claim"],
        found["submit with a report"],
    )
    assert (COSTS.index_run, COSTS.further_noun) == (
        found["memory run of one segment"],
        found["each further segment"],
    )
