"""How long things take where no host has told yet: seconds, as first guesses that measured ones replace."""

from __future__ import annotations

# A play with work in it on one host: connection, module, second look (0.9 s a call on virtual hosts).
PLAY_S = 1.5
# Installing a locked environment from the bundle, by its name: seen on virtual hosts with two slow cores.
VENV_S = {"proxy": 2.0, "simulator": 3.0, "engine-cpu": 90.0}
# A CUDA environment is resolved and downloaded by the host itself: several GiB over an unknown line.
VENV_UNKNOWN = ("engine-cuda",)
# A vendor's driver is built against the running kernel (dkms) while it is installed.
PACKAGE_S = {"nvidia-driver-": 240.0, "doca-ofed": 600.0}
ANY_PACKAGE_S = 15.0
# Until /health answers. The proxy and the simulator load nothing but Python.
PROXY_START_S = 2.0
SIMULATOR_START_S = 2.0
# systemd stops an engine: SIGTERM, then the requests that it still has.
STOP_S = 5.0
# A server with eight GPUs and terabytes of memory: firmware and memory training alone take minutes. The first
# one that is measured replaces it.
REBOOT_S = 600.0
