"""UCX's transports: what the short names in UCX_TLS stand for, which of them are RDMA, what it warns of."""

from __future__ import annotations

from collections.abc import Collection, Mapping

# UCX 1.19 src/ucp/core/ucp_context.c, ucp_tl_aliases; without those that only help others to connect.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "mm": ("posix", "sysv", "xpmem"),
    "sm": ("posix", "sysv", "xpmem", "knem", "cma"),
    "shm": ("posix", "sysv", "xpmem", "knem", "cma"),
    "ib": ("rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5", "dc_mlx5"),
    "ud_v": ("ud_verbs",),
    "ud_x": ("ud_mlx5",),
    "ud": ("ud_mlx5", "ud_verbs"),
    "rc_v": ("rc_verbs",),
    "rc_x": ("rc_mlx5",),
    "rc": ("rc_mlx5", "rc_verbs"),
    "dc": ("dc_mlx5",),
    "dc_x": ("dc_mlx5",),
    "cuda": ("cuda_copy", "cuda_ipc", "gdr_copy"),
}
RDMA = ALIASES["ib"]
EVERYTHING = "all"
CUDA_IPC, CUDA_COPY, TCP = "cuda_ipc", "cuda_copy", "tcp"
# What an engine's journal has, long before endpoints time out: a transport or a device that UCX_TLS or
# UCX_NET_DEVICES asks for and that is not there (ucp_context.c, ucp_report_unavailable), and a library of
# another version than the program was built with (ucp_context.c, ucp_version_check).
UCX_COMPLAINTS = r"UCX +(WARN|ERROR) .*(available, please use one or more of|version is incompatible)"


def stands_for(name: str) -> tuple[str, ...]:
    """Transports of one word of UCX_TLS, which may carry `:aux` or a leading backslash for the exact name."""
    word = name.strip().partition(":")[0]
    return (word[1:],) if word.startswith("\\") else ALIASES.get(word, (word,))


def chosen(tls: str, offered: Collection[str]) -> set[str]:
    """Of what is offered, what a value of UCX_TLS leaves."""
    words = [word for word in tls.lstrip("^").split(",") if word.strip()]
    named = {each for word in words for each in stands_for(word)}
    if tls.startswith("^"):
        return {each for each in offered if each not in named}
    return set(offered) if not words or EVERYTHING in words else {each for each in offered if each in named}


def lacking(tls: str, offered: Collection[str]) -> list[str]:
    """Words of UCX_TLS that nothing offered stands for; what is only excluded lacks nothing."""
    if tls.startswith("^"):
        return []
    words = [word.strip() for word in tls.split(",") if word.strip()]
    return [word for word in words if word != EVERYTHING and not set(stands_for(word)) & set(offered)]
