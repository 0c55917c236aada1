"""Options that several commands have, each said once."""

from pathlib import Path
from typing import Annotated

import typer

Cwd = Annotated[Path, typer.Option("--cwd", metavar="DIR", help="Work in this folder instead of the current one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Files = Annotated[
    list[Path] | None,
    typer.Option("--file", "-f", metavar="FILE", help="Show this file to the model; relative to --cwd; repeatable."),
]
ModelName = Annotated[
    str | None, typer.Option("--model", "-m", metavar="NAME", help="Name or path of a model; see khepri models.")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed of the choices above temperature 0.")]
Backend = Annotated[
    str | None,
    typer.Option(
        "--backend", metavar="auto|llama_cpp|ik_llama", help="The library that runs the model. [default: auto]"
    ),
]
Draft = Annotated[
    str | None,
    typer.Option(
        "--draft",
        metavar="off|suffix|model|all",
        help="Who proposes tokens ahead; never changes what is said, only how fast. [default: suffix]",
    ),
]
DraftModel = Annotated[
    str | None,
    typer.Option(
        "--draft-model",
        metavar="NAME",
        help="The smaller model that drafts, with --draft model or all. [default: the catalogue's]",
    ),
]
Gamma = Annotated[
    str | None,
    typer.Option("--gamma", metavar="N|auto", help="Proposed tokens verified in one pass. [default: auto]"),
]
