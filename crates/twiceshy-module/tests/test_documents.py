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


def shown(reply):
    """A reply as the documents show it."""
    if isinstance(reply, list):
        return " ".join(map(shown, reply))
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def test_the_shown_replies_are_those_of_the_server(db):
    text = (ROOT / "docs/guide/module.md").read_text()
    lines = [line for block in re.findall(r"```text\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    checked = 0
    for command, reply in zip(lines, lines[1:]):
        if command.startswith("> AF."):
            assert shown(db.execute_command(*shlex.split(command[2:]))) == reply, command
            checked += 1
    assert checked >= 9
