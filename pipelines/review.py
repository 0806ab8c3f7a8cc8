"""`learner review`: the proposals that wait for a person, their answers, and a step outside a run.

Promises that an answer is a run of the caller's own key, and that stored text is shown as harmless text.
Leaves out who may answer: that is the store's grants on the queue `learn.review`.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from tessera.cli.terminal import Json, say, say_json, say_table, shown

app = typer.Typer(
    help="Lessons that wait for a person's yes, their answers, and a step of review and learn by hand.",
    no_args_is_help=True,
    add_completion=False,
)

Task = Annotated[str, typer.Argument(metavar="TASK_ID", help="The question, as `learner review list` shows.")]
_TEXT = 100  # characters of a stored text in a table


@app.command("list")
def list_(
    queue: Annotated[str | None, typer.Option("--queue", help="Only proposals for this queue.")] = None,
    as_json: Json = False,
) -> None:
    """List the proposals that wait for an answer and that this key may read."""
    from assets.human_gate import OPEN, questions
    from tessera.client import Client

    with Client() as client:
        waiting = [
            one.document()
            for one in questions(client)
            if one.state in OPEN and queue in (None, one.body["queue"])
        ]
    if as_json:
        say_json({"waiting": waiting})
        return
    if not waiting:
        say("nothing waits for review")
        return
    say_table(("question", "queue", "proposal", "score#", "lesson"), [_row(one) for one in waiting])
    say("`learner review approve QUESTION` or `learner review refuse QUESTION --reason R` answers one")


@app.command()
def show(task_id: Task, as_json: Json = False) -> None:
    """Show one proposal whole, and its answer if it has one."""
    from assets.human_gate import find
    from tessera.client import Client

    with Client() as client:
        question = find(client, task_id).document()
    if as_json:
        say_json(question)
        return
    proposal, answer = question["proposal"], question["answer"]
    what = f"{proposal['op']['action']} in {proposal['target']} of {shown(question['queue'])}"
    say(f"{task_id} is {question['state']}: {what}")
    for name in ("match", "text", "key"):
        if name in proposal["op"]:
            say(f"  {name}: {shown(proposal['op'][name])}")
    say(f"  score: {proposal['score']:.4f}")
    say(f"  rationale: {shown(proposal.get('rationale'))}")
    if answer is not None:
        said = "approved" if answer["approved"] else "refused"
        say(f"{said} by {answer['key_id']} at {answer['answered_at']}: {shown(answer['reason'])}")


@app.command()
def approve(
    task_id: Task,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever reads it later.")] = "approved",
    as_json: Json = False,
) -> None:
    """Say yes: the same proposal in a later step is then written."""
    _answer(task_id, True, reason, as_json)


@app.command()
def refuse(
    task_id: Task,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever reads it later.")],
    as_json: Json = False,
) -> None:
    """Say no: the same proposal in a later step is then rejected with the reason."""
    _answer(task_id, False, reason, as_json)


@app.command()
def step(
    queue: Annotated[str, typer.Option("--queue", help="The queue whose memory is written.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND…]",
            help='A command that proposes: reads {"summary": text}, writes a list of proposals.',
        ),
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="The memory of one kind of work.")] = None,
    proposer: Annotated[str | None, typer.Option("--proposer", help="A proposer by name.")] = None,
    gate: Annotated[str | None, typer.Option("--gate", help="A gate by name: score, human, …")] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            "--summary", help="A text to propose from, instead of the figures in words.", dir_okay=False
        ),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="The command's time limit.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Propose, judge and write now, outside a run: one step by the config's ports or by those named."""
    from assets import review_steps
    from assets.command_proposer import CommandProposer
    from learners.review import ReviewError
    from tessera.client import Client

    if command and proposer:
        raise typer.BadParameter("give a proposer's name or a command, not both")
    by: Any = CommandProposer(command, seconds=seconds) if command else proposer
    try:
        told = None if summary is None else summary.read_text("utf-8")
    except UnicodeDecodeError:
        raise typer.BadParameter(f"no text in UTF-8: {summary}", param_hint="'--summary'") from None
    with Client() as client:
        try:
            outcome = review_steps.step(client, queue, kind=kind, proposer=by, gate=gate, summary=told)
        except ReviewError as error:
            if error.outcome.applied or error.outcome.rejected or error.outcome.failed:
                _tell(error.outcome, as_json)
            raise
    _tell(outcome, as_json)


def _answer(task_id: str, approved: bool, reason: str, as_json: bool) -> None:
    from assets.human_gate import answer
    from tessera.client import Client

    with Client() as client:
        receipt = dict(answer(client, task_id, approved, reason))
        who = client.whoami()
    if as_json:
        say_json({"task_id": task_id, "approved": approved, "run_id": receipt["run_id"], "key_id": who["id"]})
        return
    said = "approved" if approved else "refused"
    say(f"{task_id} is {said}, recorded as run {receipt['run_id']} of key {who['name']} ({who['id']})")
    if approved:
        say("the next step writes it: `learner review step --queue Q` does one now")


def _row(question: dict[str, Any]) -> tuple[str, ...]:
    proposal = question["proposal"]
    op = proposal["op"]
    return (
        question["task_id"],
        question["queue"],
        f"{op['action']} in {proposal['target']}",
        f"{proposal['score']:.3f}",
        shown(op.get("text") or op.get("match"))[:_TEXT],
    )


def _tell(outcome: Any, as_json: bool) -> None:
    if as_json:
        say_json({name: getattr(outcome, name) for name in ("applied", "rejected", "failed")})
        return
    if not (outcome.applied or outcome.rejected or outcome.failed):
        say("nothing was proposed")
        return
    rows = [("applied", one, one.get("rationale")) for one in outcome.applied]
    for name in ("rejected", "failed"):
        rows += [(name, one["proposal"], one["reason"]) for one in getattr(outcome, name)]
    say_table(
        ("outcome", "proposal", "lesson", "reason"),
        [
            (
                name,
                f"{one['op']['action']} in {one['target']}",
                shown(one["op"].get("text") or one["op"].get("match"))[:_TEXT],
                shown(reason)[:_TEXT],
            )
            for name, one, reason in rows
        ],
    )
