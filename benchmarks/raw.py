"""What a host should hold -> the plain commands that bring it about on a new host, and those that undo it.

Nobody could do with less: no look before, no record, no order between hosts, nothing that could resume.
`pdctl apply` is measured against it.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator, Sequence

from pdctl.desired.layout import BUNDLE
from pdctl.state import Directory, File, Package, Resource, Unit, User, Venv

BUILD = "/opt/pdctl/raw-build"
# No curl on a plain host; what is asked is no more than that the service answers.
HEALTHY = """\
python3 - "$@" <<'EOT'
import sys, time, urllib.request
for url in sys.argv[1:]:
    while True:
        try:
            if urllib.request.urlopen(url, timeout=2).status == 200:
                break
        except OSError:
            time.sleep(0.1)
EOT
"""
UNPACK_UV = f"""\
rm -rf {BUILD}; mkdir -p {BUILD}; cd {BUILD}
python3 - <<'EOT'
import glob, shutil, zipfile
wheel = zipfile.ZipFile(sorted(glob.glob("{BUNDLE}/**/uv-*.whl", recursive=True))[-1])
name = next(name for name in wheel.namelist() if name.endswith("/scripts/uv"))
shutil.copyfileobj(wheel.open(name), open("uv", "wb"), 1 << 20)
EOT
chmod 700 uv; export UV_CACHE_DIR={BUILD}/cache UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never
"""


def install_script(state: Sequence[Resource]) -> str:
    """For root's `sh -s` on one host; engines and proxy are started together, and waited for."""
    parts = [
        "set -eu; export DEBIAN_FRONTEND=noninteractive",
        *(_user(each) for each in state if isinstance(each, User)),
        *(_directory(each) for each in state if isinstance(each, Directory)),
        *(_file(each) for each in state if isinstance(each, File)),
        *_packages([each for each in state if isinstance(each, Package)]),
        *_venvs([each for each in state if isinstance(each, Venv)]),
        *_units([each for each in state if isinstance(each, Unit)]),
    ]
    return "\n".join(parts) + "\n"


def undo_script(state: Sequence[Resource]) -> str:
    """Leaves the host as it was before `install_script`, package lists apart."""
    names = " ".join(each.name for each in state if isinstance(each, Package))
    units = " ".join(each.name for each in state if isinstance(each, Unit))
    files = " ".join(shlex.quote(each.path) for each in state if isinstance(each, File))
    venvs = " ".join(each.path for each in state if isinstance(each, Venv))
    folders = " ".join(each.path for each in reversed(state) if isinstance(each, Directory))
    parts = [
        "export DEBIAN_FRONTEND=noninteractive",
        f"systemctl disable -q --now {units}" if units else ":",
        f"apt-mark unhold -q {names}; apt-get purge -qy --autoremove {names}" if names else ":",
        f"rm -rf {files} {venvs} /var/cache/pdctl; systemctl daemon-reload",
        f"rmdir {folders} 2>/dev/null",
        *(f"userdel {each.name}" for each in state if isinstance(each, User)),
    ]
    return "\n".join(parts) + "\ntrue\n"


def _user(user: User) -> str:
    return f"useradd --system --home-dir {user.home} --no-create-home --shell {user.shell} {user.name}"


def _directory(each: Directory) -> str:
    return f"install -d -o {each.owner} -g {each.group} -m {each.mode} {shlex.quote(each.path)}"


def _file(each: File) -> str:
    path = shlex.quote(each.path)
    assert each.content is not None, each.path
    text = base64.b64encode(each.content).decode()
    return (
        f"mkdir -p $(dirname {path}); base64 -d > {path} <<'EOT'\n{text}\nEOT\n"
        f"chown {each.owner}:{each.group} {path}; chmod {each.mode} {path}"
    )


def _packages(packages: Sequence[Package]) -> Iterator[str]:
    """Held afterwards with all that came along, as pdctl holds the driver's family."""
    if packages:
        words = " ".join(f"{each.name}={each.version}" if each.version else each.name for each in packages)
        held = " ".join(each.name for each in packages if each.hold)
        yield "apt-get update -q"
        yield f"apt-get install -qy {words}"
        yield f"apt-mark hold -q {held} $(dpkg-query -W -f '${{Package}}\\n' 'nvidia-*' 'libnvidia-*')"
        yield "update-initramfs -u -k all"


def _venvs(venvs: Sequence[Venv]) -> Iterator[str]:
    if venvs:
        yield UNPACK_UV
        yield f"links=$(find {BUNDLE} -name '*.whl' -printf '--find-links %h\\n' | sort -u)"
    for venv in venvs:
        lines = "\n".join(venv.requirements)
        yield f"./uv venv -q --relocatable --no-project --python {venv.python} {venv.path}"
        yield f"cat > lines.txt <<'EOT'\n{lines}\nEOT"
        yield (
            f"./uv pip install -q --python {venv.path}/bin/python --compile-bytecode --no-deps --no-index"
            " --require-hashes $links -r lines.txt"
        )
    if venvs:
        yield f"cd /; rm -rf {BUILD}"


def _units(units: Sequence[Unit]) -> Iterator[str]:
    if units:
        yield "systemctl daemon-reload"
        yield f"systemctl enable -q --now {' '.join(unit.name for unit in units)}"
        yield f"set -- {' '.join(unit.health_url for unit in units if unit.health_url)}\n{HEALTHY}"
