"""The PD proxy: the front door that sends a request to a prefiller, then to a decoder.

Self-contained: it imports nothing else of pdctl and reaches hosts as the wheel `pdctl_proxy`.
"""

__version__ = "0.1.0"
