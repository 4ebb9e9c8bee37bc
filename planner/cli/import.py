"""``planner import``: what others wrote, as specs: configs of models and engines' command lines."""

# ruff: noqa: N999 - the command's name is its file's, and this one is a word of Python
from __future__ import annotations

from pathlib import Path

import click

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
    short_help="Make specs of Hugging Face configs and engine commands.",
    epilog=example("planner import hf config.json -o model.yaml"),
)
def command() -> None:
    """Make a spec of what others wrote: a model's config, an engine's command line."""


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
    """Print the model spec of a Hugging Face config FILE, its quantisation included.

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
@click.option("--gpu", metavar="NAME", help="The GPU it runs on, which no command line says.")
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
