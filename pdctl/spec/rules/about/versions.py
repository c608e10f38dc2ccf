"""Rules on versions that do not go together."""

from __future__ import annotations

from pdctl.spec.rules.about import About, doubt, warning

FITS = (
    About(
        "PIN004",
        "Two versions exclude each other by what they ask for themselves",
        "A wheel names the exact torch that it needs, and the Pythons that it is built for; no resolver finds"
        " a way around that.",
        "Pin both to versions that go together, or remove one pin: what is left out follows vLLM.",
        'stack: {vllm: "0.32.0", torch: "2.8.0"}\n',
    ),
    doubt(
        "PIN005",
        "Two versions are known not to go together",
        "Each can be installed beside the other, and fails at run time or silently takes a slow path:"
        " LMCache's native modules, for one, are built for a single torch, which nothing in its metadata says"
        " (vLLM issue 53424). A wheel that was built by yourself may differ: then suppress the rule.",
        "Take the version that the error suggests.",
        'stack: {vllm: "0.27.1", lmcache: "0.5.3"}\n',
    ),
    warning(
        "PIN006",
        "Nobody is known to have run two versions together",
        "That both can be installed does not say that they work together.",
        "Take a pair from a shipped set (`pdctl explain stack`), or try it and suppress the rule.",
        'stack: {vllm: "0.12.0", lmcache: "0.3.10"}\n',
    ),
    warning(
        "PIN007",
        "A version is not in pdctl's tables",
        "It may be newer than this pdctl. Flags, ports and names of settings are then taken to be those of"
        " the newest release that is known, and nothing is said of what goes with it.",
        "Look whether a newer pdctl knows it, or suppress the rule.",
        'stack: {vllm: "0.99.0"}\n',
    ),
    doubt(
        "DRIVER003",
        "The driver is too old for a CUDA of the stack",
        "CUDA would not start: `the NVIDIA driver on your system is too old`. Wheels of vLLM bring CUDA 12.8"
        " up to 0.19 and CUDA 13.0 from 0.20 on. Data-centre GPUs may run newer CUDA by NVIDIA's"
        " compatibility package; if it is installed and on the library path, suppress the rule.",
        "Pin a newer driver, or versions for an older CUDA.",
        'stack: {driver: "570.86.10", cuda: "13.0", vllm: "0.20.0"}\n',
    ),
)
LOCKS = (
    About(
        "LOCK001",
        "The lock beside the spec cannot be read",
        "It is no file that `pdctl lock` wrote, or it was edited where it says what it was made from.",
        "Make it anew with `pdctl lock`, or take it from the version control again.",
    ),
    About(
        "LOCK002",
        "The lock was made from another spec",
        "Each version that it holds was resolved for pins, systems and requirements that have moved since;"
        " what would be installed is neither what the spec says nor what was tried. A newer pdctl may ask for"
        " other versions of what its proxy needs, too.",
        "Run `pdctl lock`, look at the diff, and commit both files.",
    ),
    About(
        "LOCK003",
        "The lock holds another version than it was made for",
        "A lock may be edited, e.g. to hold an older release of a dependency, but not into another stack.",
        "Change the pin in the spec, then run `pdctl lock`.",
    ),
    warning(
        "LOCK004",
        "Hosts without the internet have no lock to be sent wheels by",
        "With `offline` the wheels that cluster.lock names are collected here and sent. Without a lock hosts"
        " resolve them themselves, which needs an index that they reach, such as a mirror of yours.",
        "Run `pdctl lock` and commit cluster.lock; or suppress this where the hosts have an index.",
        "",
    ),
)
