"""``planner import``: what others wrote, as specs: configs of models and engines' command lines."""

# ruff: noqa: N999 - the command's name is its file's, and this one is a word of Python
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click

from planner.cli.common import completing
from planner.cli.common.options import catalog_option, example, json_option

output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the spec there, and say in words what was read.",
)
force_option = click.option("--force", is_flag=True, help="Write over an existing FILE.")


@click.group(
    short_help="Make specs of configs, exported graphs and engine commands.",
    epilog=example("planner import hf config.json -o model.yaml"),
)
def command() -> None:
    """Make a spec of what others wrote: a config, an exported graph, an engine's command line."""


@command.command(
    short_help="A Hugging Face config.json as a model spec.",
    epilog=example("planner import hf config.json", "planner import hf config.json -o model.yaml"),
)
@click.argument("file", type=click.Path(path_type=Path))
@output_option
@force_option
@click.option("--name", metavar="NAME", help="The model's name; by default as the config has it.")
@catalog_option
@json_option
def hf(
    *,
    file: Path,
    output: Path | None,
    force: bool,
    name: str | None,
    catalogs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Print the model spec of a Hugging Face config FILE, quantisation and vision tower included.

    What the spec cannot say stands in comments. A config of an architecture that no block is for is
    refused, with the nearest one and the fields that differ. A deployment may also name a
    config.json as its model.
    """
    from planner.cli.common.importing import deliver, hf_import
    from planner.cli.common.planning import catalog_of

    deliver(hf_import(file, name, catalog_of(catalogs)), output, force=force, as_json=as_json)


@command.command(
    short_help="An engine's command line as a deployment.",
    epilog=example(
        'planner import engine "vllm serve Qwen/Qwen2.5-7B-Instruct -tp 2" --gpu h100-sxm',
        "planner import engine serve.sh -o deploy.yaml",
    ),
)
@click.argument("source")
@output_option
@force_option
@click.option(
    "--gpu",
    metavar="NAME",
    shell_complete=completing.named("gpus"),
    help="The GPU it runs on, which no command line says.",
)
@click.option(
    "--step",
    metavar="VALUE",
    help="What is asked of it, as in '{decode: {batch: 16, context: 4096}}'.",
)
@click.option(
    "--env",
    "environment",
    metavar="NAME=VALUE",
    multiple=True,
    help="A variable that the text does not set. May be repeated.",
)
@click.option(
    "--which", type=click.IntRange(1), default=1, show_default=True, help="Of several commands."
)
@catalog_option
@json_option
def engine(
    *,
    source: str,
    output: Path | None,
    force: bool,
    gpu: str | None,
    step: str | None,
    environment: tuple[str, ...],
    which: int,
    catalogs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Print the deployment that an engine's command line asks for.

    SOURCE is the command line of vLLM, SGLang or TensorRT-LLM, or a file that holds one: a shell
    script, a Dockerfile, a Kubernetes manifest or a docker-compose file. Nothing in it is run.
    What a deployment has no field for is listed with its place. The spec plans once gpu and step
    are filled in.
    """
    from planner.cli.common.engine_import import engine_import
    from planner.cli.common.importing import deliver
    from planner.cli.common.planning import catalog_of

    found = engine_import(
        source, catalog_of(catalogs), gpu=gpu, step=step, environment=environment, which=which
    )
    deliver(found, output, force=force, as_json=as_json)


def _exported(run: Callable[..., None]) -> Callable[..., None]:
    """The options that both kinds of exported graph share."""
    options: tuple[Callable[[Any], Any], ...] = (
        click.argument("file", type=click.Path(path_type=Path)),
        output_option,
        force_option,
        click.option("--name", metavar="NAME", help="The model's name; by default the file's."),
        click.option(
            "--axis",
            "axes",
            metavar="NAME=VALUE",
            multiple=True,
            help="What an axis of the export is: `batch`, `tokens` (of a sequence) or a size. May"
            " be repeated.",
        ),
        click.option(
            "--attention",
            type=click.Choice(["causal", "both"]),
            help="Whether tokens see earlier ones or both sides; by default as the masks tell.",
        ),
        click.option(
            "--last-token",
            is_flag=True,
            help="Compute the final product for the last token of each sequence alone, as engines"
            " do.",
        ),
        catalog_option,
        json_option,
    )
    for option in reversed(options):
        run = option(run)
    return run


def _import_exported(form: Literal["onnx", "torch"], given: dict[str, Any]) -> None:
    from planner.cli.common.exported_import import exported_import
    from planner.cli.common.importing import deliver
    from planner.cli.common.planning import catalog_of

    found = exported_import(
        given["file"],
        catalog_of(given["catalogs"]),
        form=form,
        name=given["name"],
        axes=given["axes"],
        attention=given["attention"],
        last_token=given["last_token"],
    )
    deliver(found, given["output"], force=given["force"], as_json=given["as_json"])


@command.command(
    short_help="An ONNX file as a model spec.",
    epilog=example(
        "planner import onnx model.onnx -o model.yaml",
        "planner import onnx decoder.onnx --axis seq=tokens --last-token",
    ),
)
@_exported
def onnx(**given: Any) -> None:
    """Print the model spec of an ONNX FILE: its graph as blocks, layers that repeat written once.

    Structure and shapes are read, weights are not; external data need not be there. An operator
    that no node of a plan is for refuses the file, by name. Needs the extra `onnx`.
    """
    _import_exported("onnx", given)


@command.command(
    short_help="A torch.export program as a model spec.",
    epilog=example("planner import torch program.pt2 -o model.yaml"),
)
@_exported
def torch(**given: Any) -> None:
    """Print the model spec of a program that torch.export.save wrote to FILE.

    Read by torch itself, which loads the weights, so take files from where you would take code.
    An operator that no node of a plan is for refuses the file, by name. Needs the extra `lab`.
    """
    _import_exported("torch", given)
