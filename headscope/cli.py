"""The command line: the application, the options that commands share, and how errors are told."""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

import headscope
from headscope.errors import HeadscopeError
from headscope.extraction.launch import launch
from headscope.extraction.ranks import tell_once

app = typer.Typer(
    name="headscope",
    help="What a transformer's attention heads know: what each attends to, and which carry syntax.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Hub id (`@revision` allowed), local folder, or `demo`, the packaged model.",
        show_default=False,
    ),
]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Treebank (.conllu), text (.txt), texts or pairs of texts (.tsv, .jsonl), any of them "
        "with .gz, the folder of a record, or `demo`, the bundled sample.",
        show_default=False,
    ),
]
Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        help="Write to this file, by ending: .json .csv .parquet .html .svg .png .pdf. Repeatable. "
        "Without it a table is printed.",
    ),
]
RowRule = Annotated[
    str, typer.Option("--rows", help="Row of a split word: `mean` of its pieces, or the `first`.")
]
Coarse = Annotated[
    bool, typer.Option("--coarse", help="Cut relations at ':' (nsubj:pass is nsubj).")
]


@dataclass(frozen=True)
class Options:
    """Options that every analysis has."""

    format: Annotated[
        str | None,
        typer.Option(help="Format of DATA: `conllu`, `text` or `pairs`. Default: told by content."),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            help="Other names of the columns of a table of texts, such as "
            "`text=premise,text_pair=hypothesis,label=gold_label`."
        ),
    ] = None
    attention: Annotated[
        str | None,
        typer.Option(
            help="Whose attention: `encoder`, `decoder` or `cross`. Default: the encoder's where "
            "there is one."
        ),
    ] = None
    target: Annotated[
        str,
        typer.Option(
            help="What a decoder beside an encoder reads: the `column` target of DATA, or a `copy` "
            "of the sentence."
        ),
    ] = "column"
    windows: Annotated[
        bool,
        typer.Option(
            "--windows",
            help="Cut documents into windows of whole sentences, as long as the model takes, in "
            "place of single sentences.",
        ),
    ] = False
    window_tokens: Annotated[
        int | None, typer.Option(help="Tokens that a window holds at most.")
    ] = None
    stride: Annotated[
        int,
        typer.Option(
            help="Sentences that the next window repeats, to be attended to and not scored."
        ),
    ] = 0
    limit: Annotated[int | None, typer.Option(help="Take only the first N sentences.")] = None
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave broken sentences out, count and list them.")
    ] = False
    control: Annotated[
        str | None,
        typer.Option(help="Also run a control: `random-weights` or `shuffled-words`."),
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0
    device: Annotated[str, typer.Option(help="`auto`, `cpu` or `cuda`.")] = "auto"
    dtype: Annotated[str, typer.Option(help="`float32`, `bfloat16` or `float16`.")] = "float32"
    batch_tokens: Annotated[
        int, typer.Option(help="Tokens in a batch; lower it if memory runs out.")
    ] = 1024
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that the model brings.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no notes.")] = False


UsageError: Any = typer.BadParameter.__base__
"""What typer raises for a wrong command line; it has no public name for it."""


class Interrupted(Exception):
    """Ctrl-C while a command ran; its text says what is left, if anything is."""


Command = Callable[..., None]


def takes_options(*never: str) -> Callable[[Command], Command]:
    """Gives a command the fields of its parameter `options`, a dataclass, as options.

    Args:
        never: fields that mean nothing to the command: it has no such options, and gets their
            defaults.
    """
    return lambda command: _with_options(command, never)


def _with_options(command: Command, never: Sequence[str]) -> Command:
    own = inspect.signature(command, eval_str=True).parameters
    kind = own["options"].annotation
    hints = get_type_hints(kind, include_extras=True)
    shared = [
        inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=item.default,
            annotation=hints[item.name],
        )
        for item in dataclasses.fields(kind)
        if item.name not in never
    ]

    def with_options(**given: Any) -> None:
        options = kind(**{item.name: given.pop(item.name) for item in shared})
        if not launch().leads:
            options = dataclasses.replace(options, quiet=True)
        try:
            command(**given, options=options)
        except KeyboardInterrupt:
            # Typer would end the program here and say nothing.
            raise Interrupted from None

    kept = [
        item.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for item in own.values()
        if item.name != "options"
    ]
    with_options.__signature__ = inspect.Signature([*kept, *shared])  # type: ignore[attr-defined]
    with_options.__doc__, with_options.__name__ = command.__doc__, command.__name__
    return with_options


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"headscope {headscope.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What a transformer's attention heads know."""


def main() -> None:
    """Runs the command line; errors are one line on standard error, exit code 2."""
    try:
        from headscope import commands  # noqa: F401  (registers the commands)

        # Not in its own mode, in which errors of usage are drawn as boxes of several lines.
        sys.exit(app(standalone_mode=False))
    except UsageError as error:
        _fail_usage(error)
    except HeadscopeError as error:
        _fail(str(error))
    except (Interrupted, KeyboardInterrupt) as stop:
        _fail(str(stop) or "interrupted; nothing was written", code=130)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # What a shell sees of a tool that SIGPIPE (13) ended.
        sys.exit(128 + 13)
    except MemoryError:
        _fail("memory ran out; lower --batch-tokens, or take fewer sentences with --limit")
    except OSError as error:
        _fail(f"{error.filename or 'system'}: {error.strerror or error}")
    except Exception as error:
        if os.environ.get("HEADSCOPE_DEBUG"):
            raise
        text = " ".join(str(error).split())[:300]
        _fail(
            f"{type(error).__name__}: {text} (a fault of headscope; HEADSCOPE_DEBUG=1 shows where, "
            "please report it)",
            code=1,
        )


def _fail_usage(error: Any) -> None:
    command = error.ctx.command_path if error.ctx else "headscope"
    text = " ".join(error.format_message().split())
    _fail(f"{text.rstrip('.')}; {command} --help tells what it takes")


def _fail(message: str, code: int = 2) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    tell_once(message, lambda: console.print("headscope: ", message, sep="", markup=False))
    sys.exit(code)
