"""The commands that README.md and docs/guide/module.md show."""

import pathlib
import re
import shlex

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("document", ["README.md", "docs/guide/module.md"])
def test_the_shown_commands_run(db, document):
    text = (ROOT / document).read_text()
    blocks = [block for block in re.findall(r"```text\n(.*?)```", text, re.DOTALL) if "AF." in block]
    lines = [line.removeprefix("> ") for block in blocks for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("AF.")]
    assert len(commands) >= 4
    for command in commands:
        # What stands behind several spaces is a remark.
        db.execute_command(*shlex.split(re.split(r" {2,}", command)[0]))
