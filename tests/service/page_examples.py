"""A browser's side of forms, and a plan of many kernels."""

from __future__ import annotations

import re

import httpx
from service_examples import DECODE

MANY = """\
name: many
model: nemotron-ultra-253b
gpu: h200-sxm
backend: {name: vllm}
parallel: {tensor: 8}
step: {decode: {batch: 16, context: 1024}}
"""
"""Each of its many kinds of block has kernels of its own, over a hundred together."""
FAULTY = DECODE.replace("gpu:", "gpuu:")
"""Its third line has a field that there is not."""


class Browser(httpx.Client):
    """Keeps its cookie, and sends the token of the page it saw last."""

    token = ""

    def __init__(self, **options):
        super().__init__(**{"timeout": 60, **options})

    def see(self, path):
        answer = self.get(path, headers={"accept": "text/html"})
        found = re.search(r'name="form_token" value="(\w*)"', answer.text)
        self.token = found[1] if found else self.token
        return answer

    def fill(self, path, *, file=None, **fields):
        files = {"file": ("run.json", file)} if file else None
        return self.post(path, data={"form_token": self.token, **fields}, files=files)
