"""Everything a host installs, collected once on the controller: pinned wheels, debs, our own parts, a tiny model."""
