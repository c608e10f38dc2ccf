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
    doubt(
        "FACT036",
        "A host's kernel did not take nvidia-peermem",
        "It asks for RDMA functions as another RDMA stack had them: OFED changed after the driver's modules"
        " were built. NICs cannot reach the memory of GPUs then. An apply that changes OFED builds them"
        " anew.",
        "Rebuild the driver's modules (`dkms build --force`, `dkms install --force`) and load it again.",
        "",
    ),
    doubt(
        "FACT037",
        "The spec wants RDMA, and an engine's UCX has none",
        "Asked as the service user with the engine's own variables. UCX would take TCP without a word, at a"
        " part of the speed, or find no way at all. Only engines that are installed are asked.",
        "Mend the port, the device files or rdma-core; or remove `nics` and `network.kind`.",
        "",
    ),
    doubt(
        "FACT038",
        "An engine's UCX lacks a transport that is asked for, or that the memory of GPUs needs",
        "Asked as the service user with the engine's own variables. UCX only warns of it; endpoints time out"
        " minutes later. On one host cuda_ipc has to be left, between hosts cuda_copy.",
        "Correct UCX_TLS, or use a UCX that was built with CUDA and RDMA.",
        "",
    ),
)
