"""Texts that something between cluster.yaml and a process could take for more than text."""

from __future__ import annotations

HOSTILE = [
    "{{ 7 * 7 }}",  # Jinja2, Ansible
    "{% raw %}{{ x }}{# y #}",
    '!unsafe \'{{ lookup("env", "HOME") }}\'',
    "$(touch /tmp/pdctl-was-here)",  # shells
    "`id`",
    "a; rm -rf / && b | c > d < e & f",
    "~/x *?[a-z]",
    "!! ^x",
    "$HOME",  # systemd's variables
    "${HOME}",
    "$$",
    "$$HOME $",
    "%n",  # systemd's specifiers
    "%%",
    "100%",
    "%2F%3A%h%%n",
    ";",  # a word of its own: systemd's next command
    "\\;",
    '"',
    "'",
    "\"'\"'",
    'it\'s "quoted"',
    "\\",
    "ends in a backslash \\",
    '\\n\\t\\x41\\u0041\\q\\"',
    "  spaces  around  ",
    "\ttab\tinside\t",
    "-",
    "--",
    "--flag=--other",
    "-@:+!/bin/sh",
    "@",
    "# no comment",
    "key=value=",
    "[Section]",
    '{"a": {"b": [1, "2", null, true, "\\"x\\""]}}',
    "yes",
    "null",
    "1e3",
    "été 模型 🚀 e\u0301 \u202e \u00a0\ufeff",
    "\U0010fffd\ue000",
    "x" * 5000,
]
