"""Command lines and manifests in any shape end in a deployment or in an error for people."""

import contextlib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.errors import PlannerError
from planner.importers import engine
from planner.spec.catalog import Catalog
from planner.spec.source import compose
from planner.spec.write import written

FILES = {path.name: path.read_text() for path in (Path(__file__).parent / "engine_files").iterdir()}
CATALOG = Catalog.standard()
WORDS = st.sampled_from(
    [
        "vllm", "serve", "bench", "latency", "python3", "-m", "sglang.launch_server", "trtllm-serve",
        "docker", "run", "vllm/vllm-openai:v0.10.2", "Qwen/Qwen3-8B", "--model", "-tp", "--tp=2",
        "-O3", "-O.mode=3", "--compilation-config", "'{\"a\": {\"b\": 1}}'", "'{'", "$X", "${X:-2}",
        "${X", "$(date)", "$((1+1))", '"${A[@]}"', "A=(", ")", "A=1", "export", "&&", "|", ";",
        "<<EOF", "EOF", ">", "2>&1", "#", "'", '"', "\\", "\n", "\\\n", "--dtype", "auto", "half",
        "--max-model-len", "32k", "1e999", "-1", "--", "-", "=", "--=", "--x=", "🙂", "\0", "\r\n",
    ]
)  # fmt: skip


def survives(text: str, file: str) -> None:
    with contextlib.suppress(PlannerError):
        for start in engine.starts(text, file, {"TP": "2"}):
            made = engine.deployment(start, CATALOG, None)
            spec = written(made.data, made.comments)
            assert compose(spec, "deploy.yaml")[0] == made.data


@settings(max_examples=many(80, 400), deadline=None)
@given(st.lists(WORDS, max_size=25))
def test_any_words_are_read_or_refused(words):
    survives(" ".join(words), "command")


@settings(max_examples=many(60, 300), deadline=None)
@given(st.data())
def test_any_cut_and_paste_in_a_file_is_read_or_refused(data):
    name = data.draw(st.sampled_from(sorted(FILES)))
    text = FILES[name]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 80)))
    put = data.draw(st.text(max_size=6) | st.lists(WORDS, max_size=3).map(" ".join))
    survives(text[:start] + put + text[end:], name)
