"""What a host's base tree holds beyond the distribution's packages, as a tar archive and a script."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass

PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "sudo",
    "iproute2",
    "ca-certificates",
    "gpgv",
    "procps",
)
# Units that do nothing useful in a container, or wake up by the clock.
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "motd-news.timer",
    "console-getty.service",
    "getty.target",
    "systemd-networkd.service",
    "systemd-timesyncd.service",
    "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-tmpfiles-clean.timer",
    "modprobe@.service",
    "networking.service",
)
# Run by sh with the tree as $1. `ops` has sudo without a password, `opspw` with one: a fault to test against.
SCRIPT = """
chroot "$1" sh -ec 'useradd -m -s /bin/bash ops; useradd -m -s /bin/bash opspw
printf "ops:ops\\nopspw:opspw\\n" | chpasswd'
"""
# nspawn shows the machine's own /proc/sys: hosts get a private copy that they may write. kernel/random stays
# live, since ansible's reboot module compares its boot_id.
PRIVATE_SYSCTL = """#!/bin/sh
set -e
mkdir -p /run/pdctl-lab/random
mount --rbind /proc/sys/kernel/random /run/pdctl-lab/random
for d in vm kernel fs net; do
  mkdir -p /run/pdctl-lab/sys
  cp -r /proc/sys/$d /run/pdctl-lab/sys/ 2>/dev/null || :
  chmod -R u+w /run/pdctl-lab/sys/$d
  mount --bind /run/pdctl-lab/sys/$d /proc/sys/$d
done
mount --rbind /run/pdctl-lab/random /proc/sys/kernel/random
"""
PRIVATE_SYSCTL_UNIT = """[Unit]
DefaultDependencies=no
Before=systemd-sysctl.service sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/lib/pdctl-lab/private-sysctl
[Install]
WantedBy=sysinit.target
"""
# No kernel module can be loaded by a container. A package "has" module X by shipping an empty file
# /usr/lib/pdctl-lab/modules/X; the loaded ones are files in /run/pdctl-lab/modules.
MODPROBE = """#!/bin/sh
remove=
for a; do
  case $a in -r|--remove) remove=1;; -*) ;; *) m=$(echo "$a" | tr - _)
    if [ "$remove" ]; then rm -f /run/pdctl-lab/modules/$m
    elif [ -e /usr/lib/pdctl-lab/modules/$m ]; then
      mkdir -p /run/pdctl-lab/modules; touch /run/pdctl-lab/modules/$m
    else echo "modprobe: FATAL: Module $a not found in directory /lib/modules/$(uname -r)" >&2; exit 1
    fi;;
  esac
done
"""
LSMOD = """#!/bin/sh
echo "Module                  Size  Used by"
cd /run/pdctl-lab/modules 2>/dev/null || exit 0
for m in *; do [ -e "$m" ] && printf '%-19s %8d  0\\n' "$m" 16384; done
exit 0
"""
SSHD = """GSSAPIAuthentication no
UseDNS no
PasswordAuthentication yes
MaxStartups 100
MaxSessions 100
"""
ENVIRONMENT = 'PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"\n'  # as Ubuntu's


@dataclass(frozen=True)
class Entry:
    """One file, or a symbolic link when `link` is given."""

    text: str = ""
    mode: int = 0o644
    link: str = ""


@dataclass(frozen=True)
class Look:
    """What makes a Debian tree say that it is an Ubuntu release."""

    version: str
    point: str
    animal: str
    debian: str


LOOKS = {
    "jammy": Look("22.04", "22.04.5", "Jammy Jellyfish", "bookworm/sid"),
    "noble": Look("24.04", "24.04.2", "Noble Numbat", "trixie/sid"),
}


def archive(looks_like: str) -> bytes:
    """The files as a tar archive; the same bytes for the same content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, entry in sorted(entries(looks_like).items()):
            info = tarfile.TarInfo(path.lstrip("/"))
            if entry.link:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
                tar.addfile(info)
            else:
                content = entry.text.encode()
                info.size, info.mode = len(content), entry.mode
                tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def entries(looks_like: str) -> dict[str, Entry]:
    """Every file that is put over the distribution's own."""
    units = "/etc/systemd/system"
    return {
        **{f"{units}/{unit}": Entry(link="/dev/null") for unit in MASKED},
        f"{units}/default.target": Entry(link="/lib/systemd/system/multi-user.target"),
        f"{units}/private-sysctl.service": Entry(PRIVATE_SYSCTL_UNIT),
        f"{units}/sysinit.target.wants/private-sysctl.service": Entry(link=f"{units}/private-sysctl.service"),
        "/etc/apt/apt.conf.d/10-no-languages": Entry('Acquire::Languages "none";\n'),
        "/etc/apt/sources.list": Entry(),  # no host reaches a mirror: sources are the user's own
        "/etc/dpkg/dpkg.cfg.d/unsafe-io": Entry("force-unsafe-io\n"),  # the changes lie in memory anyway
        "/etc/environment": Entry(ENVIRONMENT),
        "/etc/machine-id": Entry(),
        "/etc/ssh/sshd_config.d/50-pdctl-lab.conf": Entry(SSHD),
        "/etc/sudoers.d/pdctl-lab": Entry("ops ALL=(ALL) NOPASSWD: ALL\nopspw ALL=(ALL) ALL\n", 0o440),
        "/etc/systemd/journald.conf.d/small.conf": Entry(
            "[Journal]\nStorage=persistent\nSystemMaxUse=16M\nSystemMaxFileSize=4M\n"
        ),
        "/usr/bin/lsmod": Entry(LSMOD, 0o755),
        "/usr/local/lib/pdctl-lab/private-sysctl": Entry(PRIVATE_SYSCTL, 0o755),
        "/usr/sbin/depmod": Entry("#!/bin/sh\n", 0o755),
        "/usr/sbin/modprobe": Entry(MODPROBE, 0o755),
        **(_ubuntu(looks_like, LOOKS[looks_like]) if looks_like in LOOKS else {}),
    }


def _ubuntu(codename: str, look: Look) -> dict[str, Entry]:
    return {
        "/etc/debian_version": Entry(f"{look.debian}\n"),
        "/etc/lsb-release": Entry(
            f"DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE={look.version}\nDISTRIB_CODENAME={codename}\n"
            f'DISTRIB_DESCRIPTION="Ubuntu {look.point} LTS"\n'
        ),
        "/usr/lib/os-release": Entry(
            f'PRETTY_NAME="Ubuntu {look.point} LTS"\nNAME="Ubuntu"\nVERSION_ID="{look.version}"\n'
            f'VERSION="{look.point} LTS ({look.animal})"\nVERSION_CODENAME={codename}\nID=ubuntu\n'
            f"ID_LIKE=debian\nUBUNTU_CODENAME={codename}\n"
        ),
    }
