"""Rules on what hosts say of the packages below the engines: `pdctl doctor` and `validate --hosts`."""

from __future__ import annotations

from pdctl.spec.rules.about import doubt, warning

STACK = (
    warning(
        "FACT034",
        "A pinned version is in no repository of a host",
        "An apply would install nothing there. Builds that were replaced by newer ones leave the archives."
        " The host's own lists may be old: an apply fetches them anew before it says so.",
        "Pin a version that is there, or give the host a repository that has it, such as a snapshot or a"
        " mirror of your own.",
        "",
    ),
    doubt(
        "FACT035",
        "A host's dpkg was cut off at packages of others",
        "Before that is repaired, apt installs nothing. It would run the scripts of packages that pdctl has"
        " nothing to do with, so it is left to whoever put them there; what was cut off at pdctl's own"
        " packages, the next apply finishes.",
        "Run `dpkg --configure -a` on the host.",
        "",
    ),
)
