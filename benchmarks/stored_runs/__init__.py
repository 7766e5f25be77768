"""Long runs in stores: what breaks them, and what they take."""
