"""Networks on images: Table 2 of the paper, and what flattening changes in noisy energies."""
