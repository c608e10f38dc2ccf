"""Everything hosts install, collected once on the controller: pinned wheels, debs, our parts, a model."""
