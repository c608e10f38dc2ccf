"""Facts about models, versions, flags, ports and packages, as tables with their sources."""
