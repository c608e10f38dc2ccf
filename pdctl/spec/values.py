"""Value types of the spec: what a name, a version, a port or a path may look like."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pdctl.knowledge.addresses import PCI
from pdctl.knowledge.cpus import CPU_LIST, cpu_set

NAME = r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?"
ANSIBLE_GROUPS = ("all", "ungrouped")  # in every inventory of Ansible, which takes a name for either
HOST_NAME = r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
DNS_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
# PEP 440 without its odd spellings; a local version such as `+cu128` too.
WHOLE = "(0|[1-9][0-9]*)"
RELEASE = rf"{WHOLE}(\.{WHOLE})*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?(\+[a-z0-9]+([.][a-z0-9]+)*)?"
PYTHON = r"3\.[0-9]{1,2}(\.[0-9]{1,2})?"
COMMIT = r"[0-9a-f]{7,40}"
# Debian policy 5.6.12: it begins with a digit, and so does what follows an epoch.
DEB_VERSION = r"([0-9]+:)?[0-9][A-Za-z0-9.+~]*(-[A-Za-z0-9.+~]+){0,3}"
LONGEST_VERSION = 80
# Debian policy 5.6.1; a name that ends in - or + would tell apt to remove or install something else.
PACKAGE = r"[a-z0-9][a-z0-9+.-]*[a-z0-9]"
# Hugging Face repository ids: one or two parts.
MODEL_ID = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,95})?"
RULE_ID = r"[A-Z]+[0-9]{3}"
# The kernel gives an RDMA device up to 63 characters (IB_DEVICE_NAME_MAX); UCX separates names by commas and
# appends `:port`.
NIC_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
# What ssh takes after -J, without characters that mean something to it or to a shell.
HOP = r"(ssh://)?([A-Za-z0-9_][A-Za-z0-9._-]*@)?([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]|[0-9A-Fa-f:]*)(:[0-9]{1,5})?"
JUMP = rf"{HOP}(, ?{HOP}){{0,7}}"
# What breaks a line or a unit file: control characters but the tab, Unicode's line ends, lone surrogates, and
# noncharacters, for which systemd 252 refuses the whole unit as not UTF-8 clean.
NONCHARACTERS = "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
CONTROL = f"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef{NONCHARACTERS}]"
LONGEST = 32768  # bytes; far below the kernel's 128 KiB for one argument (MAX_ARG_STRLEN)


class Section(BaseModel):
    """A mapping of the spec: unknown keys and loose types are refused."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        validate_default=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,  # a value may be a secret in the wrong place
        defer_build=True,  # only `Cluster` is built when a file is read
    )


def optional(description: str, **default: Any) -> Any:
    """A section that may be left out: it is then `default`, or what its own fields default to."""
    return Field(default, description=description)


# The texts below read after the value: "`My Cluster` is not a name: use ...".


def _name(value: str) -> str:
    if not re.fullmatch(NAME, value):
        raise ValueError(
            "is not a name: use 1 to 32 lower-case letters, digits and inner hyphens, e.g. `chat-1`"
        )
    return value


PLAY_GROUPS = "pdctl_"  # how groups of a playbook's plays begin (templates/playbooks/apply.yml.j2)


def _host_name(value: str) -> str:
    if not re.fullmatch(HOST_NAME, value):
        raise ValueError("is not a host name: use 1 to 63 letters, digits, inner `-` or `_`")
    if value in ANSIBLE_GROUPS or value.startswith(PLAY_GROUPS):
        raise ValueError("is a word of Ansible's, which would not take it for a host: choose another name")
    return value


def _address(value: str) -> str:
    try:
        ip = ipaddress.ip_address(value)
    except ValueError:
        return _dns_name(value)
    ip = getattr(ip, "ipv4_mapped", None) or ip  # ::ffff:0.0.0.0 is 0.0.0.0
    if ip.is_unspecified or ip.is_multicast or value == "255.255.255.255":
        raise ValueError("is no address of one host: write the address that others reach it at")
    return value


def _dns_name(value: str) -> str:
    if is_number(value):
        raise ValueError(f"is not a valid IPv4 address{_offer(value)}")
    if "_" in value:
        raise ValueError(
            "contains `_`: engines and proxy are called by URL, where host names have letters, digits, `-`"
            " and `.` only; rename it, or give its IP address"
        )
    if len(value) > 253 or not all(re.fullmatch(DNS_LABEL, label) for label in value.split(".")):
        raise ValueError(
            "is neither an IP address nor a host name (labels of 1 to 63 letters, digits and inner `-`)"
        )
    return value


def is_number(host: str) -> bool:
    """Whether resolvers take it for an IPv4 address in an odd spelling: 0x0a00000b, 167772171, 10.11."""
    last = host.rstrip(".").rpartition(".")[2]
    return re.fullmatch(r"[0-9]+|0[xX][0-9A-Fa-f]*", last) is not None


def _offer(value: str) -> str:
    if not re.fullmatch(r"0[xX][0-9A-Fa-f]{1,8}|[1-9][0-9]{0,9}", value) or int(value, 0) >= 2**32:
        return ""
    return f"; did you mean {ipaddress.IPv4Address(int(value, 0))}?"


def _line(value: str) -> str:
    if re.search(CONTROL, value):
        raise ValueError("must be one line of text without control characters")
    return value


def _word(value: str) -> str:
    if re.search(r"\s", _line(value)):
        raise ValueError("must be one word without spaces")
    return _no_option(value)


def _no_option(value: str) -> str:
    if _line(value).startswith("-"):
        raise ValueError("begins with `-` and would be taken for an option")
    return value


def _ssh_file(value: str) -> str:
    if '"' in _no_option(value):
        raise ValueError("holds a `\"`, which ends a file name in ssh's options")
    return value


def _jump(value: str) -> str:
    if not re.fullmatch(JUMP, value):
        raise ValueError("is no jump host: write `user@host:port`, several with commas")
    return value


def _absolute(value: str) -> str:
    if not _line(value).startswith("/") or ".." in value.split("/"):
        raise ValueError("is not an absolute path without `..`")
    return value


def _env_name(value: str) -> str:
    if not re.fullmatch(ENV_NAME, value):
        raise ValueError("is not a name for an environment variable: use letters, digits and `_`")
    return value


def _form(pattern: str, what: str) -> Callable[[str], str]:
    """A check of a version's form, which offers the part of the text that has it."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) and len(value) <= LONGEST_VERSION:
            return value
        inner = re.search(rf"(?<![0-9.])({pattern})$", value[:LONGEST_VERSION])
        offer = f'; did you mean "{inner[1]}"?' if inner and "." in inner[1] else ""
        raise ValueError(f"is not {what}{offer}")

    return check


def _package(value: str) -> str:
    if not re.fullmatch(PACKAGE, value):
        raise ValueError("is not the name of a Debian package")
    return value


def _model_id(value: str) -> str:
    if not re.fullmatch(MODEL_ID, value):
        raise ValueError(
            "is not a model id: write it as on Hugging Face, `owner/name`; a folder goes into `path`"
        )
    return value


def _hash_seed(value: str) -> str:
    if not re.fullmatch("[0-9]{1,10}", value) or int(value) > 4294967295:  # CPython's range
        raise ValueError("is not a hash seed: use digits, 0 to 4294967295")
    return value


def _rule_id(value: str) -> str:
    if not re.fullmatch(RULE_ID, value):
        raise ValueError("is not the id of a rule: write it as in an error, e.g. `PORT005`")
    return value


def _nic_name(value: str) -> str:
    if not re.fullmatch(NIC_NAME, value):
        raise ValueError(
            "is not the name of an RDMA device: write it as under /sys/class/infiniband, e.g. `mlx5_0`; its"
            " port goes into `port`"
        )
    return value


def _pci_address(value: str) -> str:
    if not PCI.fullmatch(value):
        raise ValueError('is not a PCI address: write it as `lspci -D` does, e.g. "0000:1b:00.0"')
    return value


def _cpu_list(value: str) -> str:
    if not cpu_set(value):
        raise ValueError("is no list of CPUs: write it as `nvidia-smi topo -m` does, e.g. `0-47,96-143`")
    return value


def _reason(value: str) -> str:
    if len(re.findall(r"\w", _line(value))) < 3:
        raise ValueError("is no reason: say in a few words why the rule does not apply here")
    return value


def _pattern(pattern: str) -> Any:
    """The pattern for editors; our own validator words the error."""
    return Field(json_schema_extra={"pattern": f"^({pattern})$"})


# For editors: what the validators below refuse by form, in the words of JSON Schema.
ONE_LINE = r"[^\u0000-\u0008\u000a-\u001f\u007f-\u009f\u2028\u2029]*"
ONE_WORD = r"[^\s\u0000-\u001f\u007f-\u009f-][^\s\u0000-\u001f\u007f-\u009f]*"
SOME_WORDS = rf"{ONE_LINE}(\w{ONE_LINE}){{3}}"
NO_OPTION = rf"(?!-){ONE_LINE}"
PATH = rf"(?!.*/\.\.(/|$))/{ONE_LINE}"
IPV6 = r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[0-9A-Za-z]+)?"
OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = rf"({OCTET}\.){{3}}{OCTET}"
NO_NUMBER = r"(?!([^.]*\.)*([0-9]+|0[xX][0-9A-Fa-f]*)$)"
SOME_ADDRESS = rf"{IPV6}|{IPV4}|{NO_NUMBER}{DNS_LABEL}(\.{DNS_LABEL})*"

Text = Annotated[str, Field(max_length=LONGEST), _pattern(ONE_LINE), AfterValidator(_line)]
Line = Annotated[
    str, Field(min_length=1, max_length=LONGEST), _pattern(f"(?!$){ONE_LINE}"), AfterValidator(_line)
]
Word = Annotated[str, Field(min_length=1, max_length=256), _pattern(ONE_WORD), AfterValidator(_word)]
FileName = Annotated[
    str, Field(min_length=1, max_length=4096), _pattern(NO_OPTION), AfterValidator(_no_option)
]
SshFile = Annotated[
    str, Field(min_length=1, max_length=4096), _pattern(f'(?!.*"){NO_OPTION}'), AfterValidator(_ssh_file)
]
JumpHosts = Annotated[str, Field(min_length=1, max_length=1024), _pattern(JUMP), AfterValidator(_jump)]
AbsolutePath = Annotated[str, Field(max_length=4096), _pattern(PATH), AfterValidator(_absolute)]
Address = Annotated[
    str, Field(min_length=1, max_length=253), _pattern(SOME_ADDRESS), AfterValidator(_address)
]
Name = Annotated[str, _pattern(NAME), AfterValidator(_name)]
HostName = Annotated[str, _pattern(HOST_NAME), AfterValidator(_host_name)]
ModelId = Annotated[str, _pattern(MODEL_ID), AfterValidator(_model_id)]
Package = Annotated[str, _pattern(PACKAGE), AfterValidator(_package)]
RuleId = Annotated[str, _pattern(RULE_ID), AfterValidator(_rule_id)]
NicName = Annotated[str, _pattern(NIC_NAME), AfterValidator(_nic_name)]
PciAddress = Annotated[str, _pattern(PCI.pattern), AfterValidator(_pci_address)]
CpuList = Annotated[str, Field(max_length=4096), _pattern(CPU_LIST.pattern), AfterValidator(_cpu_list)]
Reason = Annotated[str, Field(min_length=1, max_length=1024), _pattern(SOME_WORDS), AfterValidator(_reason)]
HashSeed = Annotated[str, _pattern("[0-9]{1,10}"), AfterValidator(_hash_seed)]
EnvName = Annotated[str, _pattern(ENV_NAME), AfterValidator(_env_name)]
Environment = Annotated[dict[EnvName, Text], Field(max_length=256)]
Labels = Annotated[dict[Line, Text], Field(max_length=64)]
Release = Annotated[
    str, _pattern(RELEASE), AfterValidator(_form(RELEASE, 'a release: write it as on PyPI, e.g. "0.11.0"'))
]
PythonVersion = Annotated[
    str, _pattern(PYTHON), AfterValidator(_form(PYTHON, 'a version of Python: write it as "3.12"'))
]
Commit = Annotated[
    str, _pattern(COMMIT), AfterValidator(_form(COMMIT, "a commit: write 7 to 40 of its hex digits"))
]
DebVersion = Annotated[
    str,
    _pattern(DEB_VERSION),
    AfterValidator(_form(DEB_VERSION, "a version of a Debian package: write it as `apt list -a` does")),
]
Port = Annotated[int, Field(ge=1, le=65535)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
TensorParallel = Annotated[int, Field(ge=1, le=64)]
